// Values of a chat template while it is rendered.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/plain_value.h"

namespace edgedec::engine {

// One turn of a conversation; `fields` is an object with those beside role and content, or null.
struct Message {
  std::string_view role, content;
  const PlainValue* fields = nullptr;
};

enum class Kind : uint8_t {
  kUndefined, kNone, kBool, kInt, kReal, kText, kList, kObject, kBound, kNamespace, kLoop, kMacro, kOpaque
};

// kBound is a method of Python's dict that nobody calls, such as that of an object without a field "items".
struct Value;
using List = std::vector<Value>;
// Lists, tuples, and what Python makes items of as they are asked for: it has no text.
enum ListKind : int64_t { kPlainList, kTuple, kView };
struct Object;
struct Namespace;
struct Loop;

struct Value {
  Kind kind = Kind::kUndefined;
  int64_t number = 0;     // of kBool and kInt; of kText, whether it is marked as safe; of kList, ListKind; of kMacro, its node
  std::string_view text;  // of kText; of kUndefined, the name that is not defined
  union {
    const List* list = nullptr;
    double real;
    const Object* object;
    Namespace* space;
    const Loop* loop;
  };

  static Value none() { return of(Kind::kNone); }
  static Value of(Kind kind) {
    Value value;
    value.kind = kind;
    return value;
  }
  static Value flag(bool on) {
    Value value = of(Kind::kBool);
    value.number = on;
    return value;
  }
  static Value whole(int64_t number) {
    Value value = of(Kind::kInt);
    value.number = number;
    return value;
  }
  static Value fraction(double number) {
    Value value = of(Kind::kReal);
    value.real = number;
    return value;
  }
  static Value string(std::string_view text) {
    Value value = of(Kind::kText);
    value.text = text;
    return value;
  }
  static Value undefined(std::string_view name) {
    Value value;
    value.text = name;
    return value;
  }
  static Value sequence(const List* list) {
    Value value = of(Kind::kList);
    value.list = list;
    return value;
  }

  bool is(Kind one) const { return kind == one; }
  bool is_number() const { return is(Kind::kInt) || is(Kind::kBool); }
  bool is_safe() const { return is(Kind::kText) && number; }
};

struct Object {
  std::vector<std::pair<std::string_view, Value>> fields;

  const Value* find(std::string_view key) const {
    for (const auto& [name, value] : fields)
      if (name == key) return &value;
    return nullptr;
  }
};

struct Namespace {
  std::vector<std::pair<std::string_view, Value>> values;
};

struct Loop {
  const List* items;
  size_t index;
};

// Keeps what values point to, up to a number of bytes.
class ValueStore {
 public:
  explicit ValueStore(size_t most) : left_(most) {}

  // Each returns null where there is no room left.
  const std::string* text(std::string content) {
    return take(sizeof(std::string) + content.size()) ? keep(texts_, std::move(content)) : nullptr;
  }
  const List* list(List items) {
    return take(sizeof(List) + items.size() * sizeof(Value)) ? keep(lists_, std::move(items)) : nullptr;
  }
  const Object* object(Object one) {
    return take(sizeof(Object) + one.fields.size() * sizeof(one.fields[0])) ? keep(objects_, std::move(one)) : nullptr;
  }
  Namespace* space() { return take(sizeof(Namespace)) ? keep(spaces_, Namespace{}) : nullptr; }
  Loop* loop(const List* items) { return take(sizeof(Loop)) ? keep(loops_, Loop{items, 0}) : nullptr; }

  bool take(size_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  template <class T>
  static T* keep(std::vector<std::unique_ptr<T>>& all, T one) {
    all.push_back(std::make_unique<T>(std::move(one)));
    return all.back().get();
  }

  size_t left_;
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<std::unique_ptr<List>> lists_;
  std::vector<std::unique_ptr<Object>> objects_;
  std::vector<std::unique_ptr<Namespace>> spaces_;
  std::vector<std::unique_ptr<Loop>> loops_;
};

}  // namespace edgedec::engine
