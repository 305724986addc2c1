// Objects, lists made of others, and macros of chat templates.
#include <algorithm>

#include "engine/text/template_renderer.h"
#include "engine/text/template_text.h"

namespace edgedec::engine {
namespace {

// A key in the order of the filter dictsort, which takes no notice of case.
std::string sort_key(std::string_view key) {
  std::string made(key);
  for (char& one : made) one = one >= 'A' && one <= 'Z' ? static_cast<char>(one + 32) : one;
  return made;
}

// Whether a text has characters outside of ASCII beside the markers of the guard, which have no case.
bool may_have_case(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const uint32_t code = next_utf8(text, &at);
    if (code >= 0x80 && (code < 0xFDD0 || code > 0xFDEF)) return true;
  }
  return false;
}

}  // namespace

bool TemplateRenderer::dictionary(const Node& node, Value* value) {
  List pairs;
  Object object;
  if (!arguments(node, 0, &pairs)) return false;
  for (size_t at = 0; at + 1 < pairs.size(); at += 2) {
    if (!pairs[at].is(Kind::kText)) return unknown("a key that is no text");
    auto& fields = object.fields;
    const auto same = [&](const auto& field) { return field.first == pairs[at].text; };
    const auto found = std::find_if(fields.begin(), fields.end(), same);
    if (found != fields.end()) found->second = pairs[at + 1];
    else fields.emplace_back(pairs[at].text, pairs[at + 1]);
  }
  return made(std::move(object), value);
}

// The keys and values of an object, as a list of lists of two.
bool TemplateRenderer::pairs_of(const Value& value, bool sorted, Value* result) {
  List pairs;
  const auto done = [&] {
    if (!made(std::move(pairs), result)) return false;
    result->number = sorted ? kPlainList : kView;
    return true;
  };
  if (value.is(Kind::kUndefined) && !sorted) return done();
  if (value.kind < Kind::kObject) return fail("the pairs of something that is no object");
  if (!value.is(Kind::kObject)) return unknown("the pairs of such an object");
  auto fields = value.object->fields;
  for (const auto& [key, item] : fields) {
    Value pair;
    if (sorted && may_have_case(key)) return unknown("the case of letters outside of ASCII");
    if (!work(key.size() / 4) || !made(List{Value::string(key), item}, &pair)) return false;
    pair.number = kTuple;
    pairs.push_back(pair);
  }
  const auto before = [](const Value& a, const Value& b) { return sort_key((*a.list)[0].text) < sort_key((*b.list)[0].text); };
  if (sorted) std::stable_sort(pairs.begin(), pairs.end(), before);
  return done();
}

bool TemplateRenderer::object_method(Method method, const Value& value, const List& arguments, Value* result) {
  if (method == Method::kGet && !arguments.empty() && arguments.size() <= 2) {
    if (!arguments[0].is(Kind::kText)) return unknown("another key than a text");
    if (!work(1 + value.object->fields.size() / 16)) return false;
    const Value* found = value.object->find(arguments[0].text);
    *result = found ? *found : arguments.size() > 1 ? arguments[1] : Value::none();
    return true;
  }
  const bool known = method == Method::kItems || method == Method::kKeys || method == Method::kValues;
  if (!known && method != Method::kGet) return fail("an object has no such method");
  if (!arguments.empty() || !known) return unknown("a method with such arguments");
  if (method == Method::kItems) return pairs_of(value, false, result);
  List found;
  for (const auto& [key, item] : value.object->fields) found.push_back(method == Method::kKeys ? Value::string(key) : item);
  if (!made(std::move(found), result)) return false;
  result->number = kView;
  return true;
}

// The items of a list for which a test holds.
bool TemplateRenderer::select(const Node& node, Value* value) {
  Value over, holds;
  const List* items;
  if (!value_of(node.values[1], &over) || !items_of(over, &items)) return false;
  List kept;
  const Scope scope(this);
  for (const Value& item : *items) {
    bool wanted;
    bindings_.resize(scope_);
    bindings_.push_back({node.values[0], item});
    if (!value_of(node.values[2], &holds) || !truth(holds, &wanted)) return false;
    if (wanted) kept.push_back(item);
  }
  if (!made(std::move(kept), value)) return false;
  value->number = kView;
  return true;
}

bool TemplateRenderer::call_macro(const Node& node, Value* value) {
  Value macro, argument;
  if (!look_up(node.values[0], &macro)) return fail("a macro is called before it is made");
  if (!macro.is(Kind::kMacro)) return unknown("a call of a macro that is made in a loop, or has a caller");
  List given;
  Fields named;
  for (uint32_t at = 0; at < node.values[2]; ++at) {
    const uint32_t number = program_.item(node.values[1] + at);
    const Node& one = program_.node(number);
    const bool keyword = one.op == Op::kKeyword;
    if (!value_of(keyword ? one.values[2] : number, &argument)) return false;
    if (keyword) named.emplace_back(program_.text(one.values[0], one.values[1]), argument);
    else given.push_back(argument);
  }
  line_ = node.line;
  const Node& called = program_.node(static_cast<uint32_t>(macro.number));
  std::string content;
  std::string* const outer = out_;
  const size_t frame = frame_;
  Flow flow = Flow::kFailed;
  {
    const Scope scope(this);
    out_ = &content;
    frame_ = bindings_.size();
    if (bind(called, given, named)) flow = run(called.values[2]);
    frame_ = frame;
    out_ = outer;
  }
  if (flow != Flow::kGoesOn) return flow != Flow::kFailed && unknown("a loop that ends within a macro");
  return made(std::move(content), value);
}

// Gives the parameters of a macro their values.
bool TemplateRenderer::bind(const Node& macro, const List& given, const Fields& named) {
  size_t used = 0;
  if (given.size() > macro.values[1]) return fail("a macro has fewer parameters");
  for (uint32_t at = 0; at < macro.values[1]; ++at) {
    const Node& parameter = program_.node(program_.item(macro.values[0] + at));
    if (parameter.op != Op::kParameter) return fail("an expression stands where a parameter should");
    const std::string_view name = program_.text(parameter.values[1], parameter.values[2]);
    Value value = Value::undefined(name);
    const auto same = [&](const auto& one) { return one.first == name; };
    const auto found = std::find_if(named.begin(), named.end(), same);
    used += found != named.end();
    if (at < given.size()) {
      if (found != named.end()) return fail("a parameter of a macro has two values");
      value = given[at];
    } else if (found != named.end()) {
      value = found->second;
    } else if (parameter.values[3] != kNoNode && !value_of(parameter.values[3], &value)) {
      return false;
    }
    bindings_.push_back({parameter.values[0], value});
  }
  return used == named.size() || fail("a macro has no parameter of that name");
}

}  // namespace edgedec::engine
