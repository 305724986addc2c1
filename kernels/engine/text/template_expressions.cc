// Expressions of chat templates, as Jinja and Python compute them.
#include <algorithm>

#include "core/base/format.h"
#include "core/base/json.h"
#include "engine/text/template_renderer.h"
#include "engine/text/template_text.h"

namespace edgedec::engine {
namespace {

// Attributes of Python's texts and lists.
constexpr std::string_view kOfText =
    " capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha isascii isdecimal "
    "isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip maketrans partition "
    "removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase "
    "title translate upper zfill ";
constexpr std::string_view kOfList = " append clear copy count extend index insert pop remove reverse sort ";
constexpr std::string_view kOfNumber =
    " as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag is_integer numerator real to_bytes ";

bool is_private(std::string_view name) { return name.substr(0, 1) == "_"; }

// Whether a value certainly has no such attribute.
bool has_no_attribute(const Value& of, std::string_view name) {
  if (is_private(name) || of.is_safe()) return false;
  if (of.is(Kind::kNone) || of.is(Kind::kBound)) return true;
  const std::string_view known = of.is(Kind::kText) ? kOfText : of.is(Kind::kList) ? kOfList : kOfNumber;
  return of.kind >= Kind::kBool && of.kind <= Kind::kList && known.find(" " + std::string(name) + " ") == known.npos;
}

bool bound(Value* value) {
  *value = Value::of(Kind::kBound);
  return true;
}

}  // namespace

bool TemplateRenderer::value_of(uint32_t number, Value* value) {
  const Node& node = program_.node(number);
  const Level level(&depth_);
  if (!work(1)) return false;
  if (depth_ > kMostLevels) return fail("too deep a recursion");
  line_ = node.line;
  const uint32_t* v = node.values;
  Value a;
  List list;
  bool holds;
  switch (node.op) {
    case Op::kRefuse:
      return unknown(program_.text(v[0], v[1]));
    case Op::kNothing:
      *value = Value::none();
      return true;
    case Op::kBool:
      *value = Value::flag(v[0] != 0);
      return true;
    case Op::kInt:
      *value = Value::whole(static_cast<int64_t>(v[0] | static_cast<uint64_t>(v[1]) << 32));
      return true;
    case Op::kText:
      *value = Value::string(program_.text(v[0], v[1]));
      return true;
    case Op::kOpaque:
      *value = Value::of(Kind::kOpaque);
      return true;
    case Op::kName: {
      const std::string_view name = program_.text(v[1], v[2]);
      if (name == "loop" && look_up(program_.names(), value)) return true;
      if (!look_up(v[0], value)) *value = Value::undefined(name);
      return true;
    }
    case Op::kAttribute:
      return attribute(node, value);
    case Op::kItem:
      return item(node, value);
    case Op::kSlice:
      return slice(node, value);
    case Op::kList:
      if (!arguments(node, 0, &list) || !made(std::move(list), value)) return false;
      value->number = v[2] ? kTuple : kPlainList;
      return true;
    case Op::kReal: {
      const std::optional<double> real = parse_real(program_.text(v[0], v[1]));
      *value = Value::fraction(real.value_or(0.0));
      return real || fail("a constant is no number");
    }
    case Op::kAnd:
    case Op::kOr:
      if (!value_of(v[0], value) || !truth(*value, &holds)) return false;
      return holds == (node.op == Op::kOr) || value_of(v[1], value);
    case Op::kNot:
      if (!value_of(v[0], &a) || !truth(a, &holds)) return false;
      *value = Value::flag(!holds);
      return true;
    case Op::kChoose:
      if (!value_of(v[0], &a) || !truth(a, &holds)) return false;
      if (holds) return value_of(v[1], value);
      if (v[2] != kNoNode) return value_of(v[2], value);
      *value = Value::undefined("the inline if-expression without else");
      return true;
    case Op::kFilter:
      return value_of(v[0], &a) && arguments(node, 2, &list) && filter(static_cast<Filter>(v[1]), a, list, value);
    case Op::kTest:
      return value_of(v[0], &a) && arguments(node, 2, &list) && test(static_cast<Test>(v[1]), a, list, value);
    case Op::kMethod:
      return value_of(v[0], &a) && arguments(node, 2, &list) && method(static_cast<Method>(v[1]), a, list, value);
    case Op::kCall:
      if (!look_up(v[1], &a)) a = Value::of(Kind::kOpaque), a.number = 1;
      if (!a.is(Kind::kOpaque) || a.number != 1) return unknown("a function that it makes");
      return arguments(node, 2, &list) && call(static_cast<Function>(v[0]), list, value);
    case Op::kNamespace:
      return new_namespace(node, value);
    case Op::kSelect:
      return select(node, value);
    case Op::kDict:
      return dictionary(node, value);
    case Op::kSetPair:  // in front of a test that both names are for
      *value = Value::flag(true);
      return set_pair(node);
    case Op::kMacro:
      *value = Value::of(Kind::kMacro);
      value->number = number;
      return true;
    case Op::kCallMacro:
      return call_macro(node, value);
    default:
      return operation(node, value);
  }
}

bool TemplateRenderer::arguments(const Node& node, uint32_t at, List* values) {
  values->resize(node.values[at + 1]);
  for (uint32_t i = 0; i < node.values[at + 1]; ++i) {
    if (!value_of(program_.item(node.values[at] + i), &(*values)[i])) return false;
  }
  return true;
}

bool TemplateRenderer::new_namespace(const Node& node, Value* value) {
  Value ours;
  if (look_up(node.values[0], &ours) && !ours.is(Kind::kOpaque)) return unknown("a function that it makes");
  List pairs;
  if (!arguments(node, 1, &pairs)) return false;
  *value = Value::of(Kind::kNamespace);
  value->space = store_.space();
  if (!value->space || !store_.take(pairs.size() * sizeof(Value))) return fail("it takes too much memory");
  for (size_t at = 0; at + 1 < pairs.size(); at += 2) value->space->values.emplace_back(pairs[at].text, pairs[at + 1]);
  return true;
}

bool TemplateRenderer::operation(const Node& node, Value* value) {
  const uint32_t* v = node.values;
  Value a, b;
  bool holds;
  if (node.op == Op::kJoin) {
    std::string joined;
    for (uint32_t i = 0; i < v[1]; ++i) {
      std::string_view text;
      if (!value_of(program_.item(v[0] + i), &a) || !text_of(a, &text)) return false;
      joined += text;
    }
    return made(std::move(joined), value);
  }
  if (node.op == Op::kNegate) {
    if (!value_of(v[0], &a)) return false;
    return arithmetic(node, Value::whole(0), a, value);
  }
  if (node.op < Op::kAdd || node.op > Op::kCompare) return fail("a statement stands where an expression should");
  if (!value_of(v[0], &a) || !value_of(v[1], &b)) return false;
  line_ = node.line;
  if (node.op == Op::kCompare) {
    if (!compare(static_cast<Comparison>(v[2]), a, b, &holds)) return false;
    *value = Value::flag(holds);
    return true;
  }
  return arithmetic(node, a, b, value);
}

bool TemplateRenderer::arithmetic(const Node& node, const Value& a, const Value& b, Value* value) {
  if (node.op == Op::kAdd && a.is(Kind::kText) && b.is(Kind::kText)) {
    const bool safe = a.is_safe() || b.is_safe();
    std::string joined = safe && !a.is_safe() ? escaped(a.text) : std::string(a.text);
    if (!made(joined.append(safe && !b.is_safe() ? escaped(b.text) : b.text), value)) return false;
    value->number = safe;
    return true;
  }
  if (node.op == Op::kAdd && a.is(Kind::kList) && b.is(Kind::kList)) {
    List joined = *a.list;
    joined.insert(joined.end(), b.list->begin(), b.list->end());
    return made(std::move(joined), value);
  }
  if (node.op == Op::kMultiply && a.is(Kind::kText) && !a.is_safe() && b.is_number()) {
    std::string repeated;
    for (int64_t left = a.text.empty() ? 0 : b.number; left > 0; --left) {
      if (!work(1 + a.text.size() / 16) || repeated.size() > most_bytes_) return fail("it takes too much memory");
      repeated += a.text;
    }
    return made(std::move(repeated), value);
  }
  if (a.is(Kind::kUndefined)) return fail("'" + std::string(a.text) + "' is undefined");
  if (b.is(Kind::kUndefined) && b.text.size() && !a.is(Kind::kText)) return fail("'" + std::string(b.text) + "' is undefined");
  if (!a.is_number() || !b.is_number()) {
    const bool certain = node.op == Op::kAdd && (a.is(Kind::kText) || b.is(Kind::kText)) && !a.is(Kind::kOpaque) && !b.is(Kind::kOpaque);
    return certain ? fail("text is joined with something else") : unknown("arithmetic of other things than whole numbers");
  }
  int64_t result = 0;
  bool overflow = false;
  if (node.op == Op::kAdd) {
    overflow = __builtin_add_overflow(a.number, b.number, &result);
  } else if (node.op == Op::kSubtract || node.op == Op::kNegate) {
    overflow = __builtin_sub_overflow(a.number, b.number, &result);
  } else if (node.op == Op::kMultiply) {
    overflow = __builtin_mul_overflow(a.number, b.number, &result);
  } else if (b.number == 0) {
    return fail("modulo by zero");
  } else if (b.number != -1) {
    result = a.number % b.number;
    if (result && (result < 0) != (b.number < 0)) result += b.number;  // as Python rounds
  }
  if (overflow) return unknown("numbers of more than 64 bits");
  *value = Value::whole(result);
  return true;
}

bool TemplateRenderer::field(const Value& object, std::string_view name, Value* value) {
  if (!work(1 + object.object->fields.size() / 16)) return false;
  const Value* found = object.object->find(name);
  if (is_private(name)) return unknown("the attribute " + std::string(name));
  if (!found && is_of_dict(name)) return bound(value);
  *value = found ? *found : Value::undefined(name);
  return true;
}

bool TemplateRenderer::attribute(const Node& node, Value* value) {
  Value of;
  if (!value_of(node.values[0], &of)) return false;
  line_ = node.line;
  const std::string_view name = program_.text(node.values[1], node.values[2]);
  if (of.is(Kind::kUndefined)) return fail("'" + std::string(of.text) + "' is undefined");
  if (of.is(Kind::kObject)) return is_of_dict(name) ? bound(value) : field(of, name, value);
  if (of.is(Kind::kLoop)) return loop_attribute(*of.loop, name, value);
  if (has_no_attribute(of, name)) {
    *value = Value::undefined(name);
    return true;
  }
  if (!of.is(Kind::kNamespace) || is_private(name)) return unknown("the attribute " + std::string(name));
  *value = Value::undefined(name);
  for (const auto& [key, found] : of.space->values) {
    if (key == name) *value = found;
  }
  return true;
}

bool TemplateRenderer::loop_attribute(const Loop& loop, std::string_view name, Value* value) {
  const auto index = static_cast<int64_t>(loop.index), count = static_cast<int64_t>(loop.items->size());
  const auto neighbour = [&](int64_t at) {
    return at >= 0 && at < count ? (*loop.items)[static_cast<size_t>(at)] : Value::undefined("there is no such item");
  };
  *value = name == "index0"      ? Value::whole(index)
           : name == "index"     ? Value::whole(index + 1)
           : name == "revindex0" ? Value::whole(count - index - 1)
           : name == "revindex"  ? Value::whole(count - index)
           : name == "length"    ? Value::whole(count)
           : name == "first"     ? Value::flag(index == 0)
           : name == "last"      ? Value::flag(index + 1 == count)
           : name == "previtem"  ? neighbour(index - 1)
           : name == "nextitem"  ? neighbour(index + 1)
                                 : Value::of(Kind::kOpaque);
  return !value->is(Kind::kOpaque) || unknown("the attribute " + std::string(name) + " of a loop");
}

bool TemplateRenderer::item(const Node& node, Value* value) {
  Value of, key;
  if (!value_of(node.values[0], &of) || !value_of(node.values[1], &key)) return false;
  line_ = node.line;
  if (of.is(Kind::kUndefined)) return fail("'" + std::string(of.text) + "' is undefined");
  if (of.is(Kind::kObject) && key.is(Kind::kText)) return field(of, key.text, value);
  if (of.is(Kind::kNone) || (of.is(Kind::kObject) && key.is(Kind::kUndefined)) ||
      (key.is(Kind::kText) && has_no_attribute(of, key.text))) {
    *value = Value::undefined("an item that is not there");
    return true;
  }
  if (!key.is_number() || !(of.is(Kind::kList) || of.is(Kind::kText))) return unknown("an item of another kind");
  const int64_t size = of.is(Kind::kList) ? static_cast<int64_t>(of.list->size()) : characters(of.text);
  const int64_t at = key.number < 0 ? key.number + size : key.number;
  if (!work(of.text.size() / 16)) return false;
  if (of.is_safe()) return unknown("an item of a text that is marked as safe");
  *value = at < 0 || at >= size ? Value::undefined("an item that is not there")
           : of.is(Kind::kList) ? (*of.list)[static_cast<size_t>(at)]
                                : Value::string(part(of.text, at, at + 1));
  return true;
}

bool TemplateRenderer::slice(const Node& node, Value* value) {
  Value of, bounds[3];
  if (!value_of(node.values[0], &of)) return false;
  for (int i = 0; i < 3; ++i) {
    bounds[i] = Value::none();
    if (node.values[i + 1] != kNoNode && !value_of(node.values[i + 1], &bounds[i])) return false;
    if (!bounds[i].is_number() && !bounds[i].is(Kind::kNone)) return unknown("a slice of another kind");
  }
  line_ = node.line;
  if (of.is(Kind::kUndefined)) return fail("'" + std::string(of.text) + "' is undefined");
  if (of.is(Kind::kNone) || of.is_number()) return fail("a slice of something that is no list");
  if (of.is_safe() || (!of.is(Kind::kList) && !of.is(Kind::kText))) return unknown("a slice of another kind");
  const int64_t size = of.is(Kind::kList) ? static_cast<int64_t>(of.list->size()) : characters(of.text);
  const int64_t step = bounds[2].is(Kind::kNone) ? 1 : bounds[2].number;
  if (step == 0) return fail("slice step cannot be zero");
  if (step != 1 && (step != -1 || of.is(Kind::kText))) return unknown("a slice with steps");
  const auto place = [&](const Value& bound, int64_t otherwise) {
    if (bound.is(Kind::kNone)) return otherwise;
    const int64_t at = bound.number < 0 ? bound.number + size : bound.number;
    return std::clamp(at, step < 0 ? int64_t{-1} : int64_t{0}, step < 0 ? size - 1 : size);
  };
  const int64_t first = place(bounds[0], step < 0 ? size - 1 : 0), last = place(bounds[1], step < 0 ? -1 : size);
  if (!work(of.text.size() / 16)) return false;
  if (of.is(Kind::kText)) {
    *value = Value::string(first < last ? part(of.text, first, last) : std::string_view());
    return true;
  }
  List items;
  for (int64_t at = first; step < 0 ? at > last : at < last; at += step) items.push_back((*of.list)[static_cast<size_t>(at)]);
  if (of.number == kView) return unknown("a slice of another kind");
  if (!made(std::move(items), value)) return false;
  value->number = of.number;
  return true;
}

}  // namespace edgedec::engine
