// Runs a template's program over one conversation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "engine/text/template_program.h"
#include "engine/text/template_values.h"

namespace edgedec::engine {

// A conversation and its tools, as a template gets them.
struct Talk {
  Span<const Message> messages;
  Span<const PlainValue> tools;
};

class TemplateRenderer {
 public:
  TemplateRenderer(const TemplateProgram& program, const Talk& talk);

  // Sets a variable that the template sees. The name is looked for among those that it uses.
  void set(std::string_view name, Value value);
  // Sets `messages`, and `tools` where there are some.
  void set_talk();

  Status render(std::string* prompt);

 private:
  using Fields = std::vector<std::pair<std::string_view, Value>>;
  enum class Flow { kGoesOn, kBreak, kContinue, kFailed };
  struct Binding {
    uint32_t name;
    Value value;
  };
  // A scope of its own, as long as this lives.
  class Scope {
   public:
    explicit Scope(TemplateRenderer* of) : of_(*of), start_(of->scope_), bound_(of->bindings_.size()) {
      if (!of_.scopes_++) of_.outer_ = bound_;
      of_.scope_ = bound_;
    }
    Scope(const Scope&) = delete;
    ~Scope() {
      --of_.scopes_;
      of_.bindings_.resize(bound_);
      of_.scope_ = start_;
    }

   private:
    TemplateRenderer& of_;
    size_t start_, bound_;
  };
  // A level of nodes within each other, with those of macros. They take room on the stack.
  static constexpr int kMostLevels = 400;
  class Level {
   public:
    explicit Level(int* depth) : depth_(*depth) { ++depth_; }
    ~Level() { --depth_; }

   private:
    int& depth_;
  };

  // Statements.
  Flow run(uint32_t number);
  Flow run_block(const Node& node);
  Flow run_loop(const Node& node);
  bool write(const Node& node);
  bool set_block(const Node& node);
  bool set_attribute(const Node& node);
  void assign(uint32_t name, const Value& value);

  // Expressions: false where they fail.
  bool value_of(uint32_t number, Value* value);
  bool operation(const Node& node, Value* value);
  bool arithmetic(const Node& node, const Value& a, const Value& b, Value* value);
  bool attribute(const Node& node, Value* value);
  bool loop_attribute(const Loop& loop, std::string_view name, Value* value);
  bool item(const Node& node, Value* value);
  bool slice(const Node& node, Value* value);
  bool new_namespace(const Node& node, Value* value);
  bool look_up(uint32_t name, Value* value) const;
  bool arguments(const Node& node, uint32_t at, List* values);
  bool field(const Value& object, std::string_view name, Value* value);
  bool dictionary(const Node& node, Value* value);
  bool select(const Node& node, Value* value);
  bool call_macro(const Node& node, Value* value);
  bool bind(const Node& macro, const List& given, const Fields& named);
  bool set_pair(const Node& node);
  bool value_from(const PlainValue& plain, Value* value);

  bool compare(Comparison comparison, const Value& a, const Value& b, bool* result);
  bool equal(const Value& a, const Value& b, bool* result);
  bool equal_parts(const Value& a, const Value& b, bool* result);
  bool contains(const Value& all, const Value& one, bool* result);
  bool truth(const Value& value, bool* result);
  bool text_of(const Value& value, std::string_view* text);
  bool items_of(const Value& value, const List** items);
  bool pairs_of(const Value& value, bool sorted, Value* result);

  // Filters, tests, methods and functions.
  bool filter(Filter filter, const Value& value, const List& arguments, Value* result);
  bool test(Test test, const Value& value, const List& arguments, Value* result);
  bool method(Method method, const Value& value, const List& arguments, Value* result);
  bool call(Function function, const List& arguments, Value* result);
  bool length(const Value& value, int64_t* length);
  bool object_method(Method method, const Value& value, const List& arguments, Value* result);
  bool to_json(const Value& value, const List& arguments, Value* result);
  bool represent(const Value& value, int level, std::string* out);
  struct JsonForm;
  bool json_form(const List& arguments, JsonForm* form);
  bool write_json(const Value& value, int level, JsonForm* form);
  bool write_parts(const Value& value, int level, JsonForm* form);
  bool replace(std::string_view text, const List& arguments, Value* result);
  bool strip(Method method, std::string_view text, const List& arguments, Value* result);
  bool split(Method method, std::string_view text, const List& arguments, Value* result);
  bool in_case(std::string_view text, char form, Value* result);
  bool join(const Value& items, const Value& between, Value* result);
  bool time_now(std::string_view format, Value* result);

  // Each sets the status, with the line, and returns false.
  bool fail(std::string_view reason);
  bool unknown(std::string_view construct);
  bool work(size_t steps);
  bool made(std::string text, Value* result);
  bool made(List list, Value* result);
  bool made(Object object, Value* result);

  const TemplateProgram& program_;
  const Talk& talk_;
  ValueStore store_;
  uint64_t steps_;
  size_t most_bytes_;
  std::vector<Binding> bindings_;
  size_t scope_ = 0;  // where the bindings of the innermost scope begin
  size_t outer_ = 0;  // bindings of the template outside of all scopes, which a macro sees
  size_t frame_ = 0;  // where those of the innermost macro begin; 0: in none
  int scopes_ = 0, depth_ = 0;
  std::string* out_ = nullptr;
  uint32_t line_ = 0;
  Status status_;
};

}  // namespace edgedec::engine
