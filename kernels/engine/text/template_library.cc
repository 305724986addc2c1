// Filters, tests, methods and functions of chat templates, as Jinja and Python have them.
#include <algorithm>
#include <ctime>

#include "common/os/clock.h"
#include "engine/text/template_renderer.h"
#include "engine/text/template_text.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kMostRange = 100'000;

bool letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }

}  // namespace

bool TemplateRenderer::length(const Value& value, int64_t* length) {
  if (value.is(Kind::kNone) || value.is_number() || value.is(Kind::kReal)) return fail("something without a length is measured");
  if (value.is(Kind::kText) && !work(value.text.size() / 16)) return false;
  *length = value.is(Kind::kText)      ? characters(value.text)
            : value.is(Kind::kList)    ? static_cast<int64_t>(value.list->size())
            : value.is(Kind::kObject)  ? static_cast<int64_t>(value.object->fields.size())
                                       : 0;
  return value.kind <= Kind::kObject || unknown("the length of an object");
}

bool TemplateRenderer::filter(Filter filter, const Value& value, const List& arguments, Value* result) {
  std::string_view text;
  int64_t size;
  bool holds = false;
  const List* items;
  const size_t most = filter == Filter::kToJson ? 4
                      : filter == Filter::kReplace || filter == Filter::kDefault ? 2
                      : filter == Filter::kTrim || filter == Filter::kJoin     ? 1
                                                                               : 0;
  if (arguments.size() > most) return unknown("a filter with such arguments");
  switch (filter) {
    case Filter::kLength:
      if (!length(value, &size)) return false;
      *result = Value::whole(size);
      return true;
    case Filter::kDefault:
      if (arguments.size() == 2) {
        bool wanted, true_value;
        if (!truth(arguments[1], &wanted) || !truth(value, &true_value)) return false;
        holds = wanted && !true_value;
      }
      *result = !value.is(Kind::kUndefined) && !holds ? value : arguments.empty() ? Value::string("") : arguments[0];
      return true;
    case Filter::kFirst:
    case Filter::kLast:
      if (!items_of(value, &items)) return false;
      *result = items->empty()            ? Value::undefined("an item of an empty list")
                : filter == Filter::kLast ? items->back()
                                          : items->front();
      return true;
    case Filter::kJoin:
      return join(value, arguments.empty() ? Value::string("") : arguments[0], result);
    case Filter::kList:
      if (!items_of(value, &items)) return false;
      *result = Value::sequence(items);
      return true;
    case Filter::kToJson:
      return to_json(value, arguments, result);
    case Filter::kItems:
    case Filter::kDictSort:
      return pairs_of(value, filter == Filter::kDictSort, result);
    default:
      break;
  }
  if (value.is_safe() && filter != Filter::kString && filter != Filter::kSafe) return unknown("a filter of a text that is marked as safe");
  if (!text_of(value, &text)) return false;
  switch (filter) {
    case Filter::kTrim:
      return strip(Method::kStrip, text, arguments, result);
    case Filter::kReplace:
      return replace(text, arguments, result);
    case Filter::kUpper:
      return in_case(text, 'u', result);
    case Filter::kLower:
      return in_case(text, 'l', result);
    case Filter::kCapitalize:
      return in_case(text, 'c', result);
    case Filter::kTitle:
      if (!std::all_of(text.begin(), text.end(), letter)) return unknown("the case of several words");
      return in_case(text, 'c', result);
    default:
      *result = Value::string(text);
      result->number = filter == Filter::kSafe || value.is_safe();
      return true;
  }
}

bool TemplateRenderer::test(Test test, const Value& value, const List& arguments, Value* result) {
  const bool takes_one = test == Test::kEqual || test == Test::kUnequal || test == Test::kDivisibleBy || test == Test::kIn;
  if (arguments.size() != (takes_one ? 1 : 0)) return unknown("a test with such arguments");
  const Kind kind = value.kind;
  const bool known = test == Test::kDefined || test == Test::kUndefined || kind != Kind::kOpaque;
  if (!known) return unknown("a function as a value");
  bool holds = false;
  const int64_t by = test == Test::kDivisibleBy ? arguments[0].number : 2;
  switch (test) {
    case Test::kDefined: holds = kind != Kind::kUndefined; break;
    case Test::kUndefined: holds = kind == Kind::kUndefined; break;
    case Test::kNone: holds = kind == Kind::kNone; break;
    case Test::kString: holds = kind == Kind::kText; break;
    case Test::kMapping: holds = kind == Kind::kObject; break;
    case Test::kIterable:
    case Test::kSequence:
      if (kind == Kind::kNamespace || kind == Kind::kLoop) return unknown("a test of an object");
      holds = kind == Kind::kText || kind == Kind::kList || kind == Kind::kObject || kind == Kind::kUndefined;
      break;
    case Test::kNumber: holds = value.is_number() || kind == Kind::kReal; break;
    case Test::kInteger: holds = kind == Kind::kInt; break;
    case Test::kBoolean: holds = kind == Kind::kBool; break;
    case Test::kTrue: holds = kind == Kind::kBool && value.number; break;
    case Test::kFalse: holds = kind == Kind::kBool && !value.number; break;
    case Test::kIn:
      if (!contains(arguments[0], value, &holds)) return false;
      break;
    case Test::kEqual:
    case Test::kUnequal:
      if (!equal(value, arguments[0], &holds)) return false;
      holds = holds == (test == Test::kEqual);
      break;
    default:
      if (!value.is_number() || by <= 0) return unknown("a division of something else");
      holds = (value.number % by == 0) == (test != Test::kOdd);
  }
  *result = Value::flag(holds);
  return true;
}

bool TemplateRenderer::method(Method method, const Value& value, const List& arguments, Value* result) {
  if (value.is(Kind::kUndefined)) return fail("'" + std::string(value.text) + "' is undefined");
  if (value.is(Kind::kObject)) return object_method(method, value, arguments, result);
  const bool plain = std::all_of(arguments.begin(), arguments.end(), [](const Value& one) { return one.is(Kind::kText); });
  const std::string_view text = value.text;
  const bool no_text = value.kind < Kind::kText || (value.is(Kind::kList) && method != Method::kCountOf);
  if (no_text) return fail("something that is no text has no such method");
  if (!value.is(Kind::kText) || value.is_safe()) return unknown("a method of something that is no plain text");
  if (!work(1 + text.size() / 16)) return false;
  switch (method) {
    case Method::kStrip:
    case Method::kLeftStrip:
    case Method::kRightStrip:
      return strip(method, text, arguments, result);
    case Method::kSplit:
      return split(method, text, arguments, result);
    case Method::kReplace:
      return plain ? replace(text, arguments, result) : unknown("a replacement of another kind");
    case Method::kJoin:
      if (arguments.size() != 1 || !arguments[0].is(Kind::kList)) return unknown("joining of another kind");
      for (const Value& one : *arguments[0].list) {
        if (!one.is(Kind::kText)) return fail("something else than text is joined");
      }
      return join(arguments[0], value, result);
    case Method::kStartsWith:
    case Method::kEndsWith: {
      if (arguments.size() != 1 || !plain) return unknown("a comparison of another kind");
      const std::string_view other = arguments[0].text;
      const bool at_start = method == Method::kStartsWith;
      const bool fits = text.size() >= other.size();
      *result = Value::flag(fits && text.substr(at_start ? 0 : text.size() - other.size(), other.size()) == other);
      return true;
    }
    case Method::kUpper:
    case Method::kLower:
    case Method::kCapitalize:
      if (!arguments.empty()) return unknown("a method with such arguments");
      return in_case(text, method == Method::kUpper ? 'u' : method == Method::kLower ? 'l' : 'c', result);
    case Method::kItems:
    case Method::kKeys:
    case Method::kValues:
    case Method::kGet:
      return fail("a text has no such method");
    default:
      return unknown("such a method of a text");
  }
}

bool TemplateRenderer::call(Function function, const List& arguments, Value* result) {
  std::string_view text;
  if (function == Function::kRaise) {
    if (arguments.size() != 1 || !text_of(arguments[0], &text)) return unknown("an error of another kind");
    return fail(text.empty() ? "TemplateRuntimeError" : text);
  }
  if (function == Function::kTimeNow) {
    if (arguments.size() != 1 || !arguments[0].is(Kind::kText)) return unknown("a time of another kind");
    return time_now(arguments[0].text, result);
  }
  const bool numbers = std::all_of(arguments.begin(), arguments.end(), [](const Value& one) { return one.is_number(); });
  if (arguments.empty() || arguments.size() > 3 || !numbers) return unknown("such a range");
  const int64_t first = arguments.size() > 1 ? arguments[0].number : 0, last = arguments[arguments.size() > 1].number;
  const int64_t step = arguments.size() > 2 ? arguments[2].number : 1;
  int64_t way;
  if (step == 0) return fail("range() arg 3 must not be zero");
  if (__builtin_sub_overflow(last, first, &way) || step < -kMostRange || step > kMostRange) return fail("the range is too large");
  const int64_t count = way / step + (way % step != 0);
  if (count > kMostRange) return fail("the range is too large");
  List items;
  for (int64_t at = 0; at < count; ++at) items.push_back(Value::whole(first + at * step));
  return made(std::move(items), result);
}

bool TemplateRenderer::time_now(std::string_view format, Value* result) {
  constexpr std::string_view kKnown = "YmdHMSyjBbAa%";
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') continue;
    if (++at == format.size() || kKnown.find(format[at]) == kKnown.npos) return unknown("such a form of the time");
  }
  const std::tm local = os::local_now();
  char text[512];
  const std::string pattern(format);
  const size_t size = std::strftime(text, sizeof text, pattern.c_str(), &local);
  if (!size && !format.empty()) return unknown("such a form of the time");
  return made(std::string(text, size), result);
}

}  // namespace edgedec::engine
