// Comparisons and conversions of values of chat templates, as Python has them.
#include "core/base/format.h"
#include "engine/text/template_renderer.h"
#include "engine/text/template_text.h"
#include "core/base/utf8_decoder.h"

namespace edgedec::engine {

bool TemplateRenderer::truth(const Value& value, bool* result) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      *result = false;
      return true;
    case Kind::kBool:
    case Kind::kInt:
      *result = value.number != 0;
      return true;
    case Kind::kText:
      *result = !value.text.empty();
      return true;
    case Kind::kList:
      *result = !value.list->empty();
      return true;
    case Kind::kOpaque:
      return unknown("a function as a value");
    default:
      *result = true;
      return true;
  }
}

bool TemplateRenderer::text_of(const Value& value, std::string_view* text) {
  Value kept;
  switch (value.kind) {
    case Kind::kUndefined:
      *text = {};
      return true;
    case Kind::kNone:
      *text = "None";
      return true;
    case Kind::kBool:
      *text = value.number ? "True" : "False";
      return true;
    case Kind::kInt:
      if (!made(decimal(value.number), &kept)) return false;
      *text = kept.text;
      return true;
    case Kind::kText:
      *text = value.text;
      return true;
    default:
      return unknown("a list or another object as text");
  }
}

// The items over which a loop goes.
bool TemplateRenderer::items_of(const Value& value, const List** items) {
  Value kept = value;
  if (value.is(Kind::kUndefined)) {
    if (!made(List(), &kept)) return false;
  } else if (value.is(Kind::kText)) {
    if (!work(value.text.size())) return false;
    List chars;
    for (std::string_view rest = value.text; !rest.empty();) {
      const size_t size = character_bytes(rest);
      chars.push_back(Value::string(rest.substr(0, size)));
      rest.remove_prefix(size);
    }
    if (!made(std::move(chars), &kept)) return false;
  } else if (value.is(Kind::kNone) || value.is_number()) {
    return fail("a loop over something that is no list");
  } else if (!value.is(Kind::kList)) {
    return unknown("a loop over the fields of an object");
  }
  *items = kept.list;
  return true;
}

bool TemplateRenderer::equal(const Value& a, const Value& b, bool* result) {
  const auto simple = [](const Value& one) { return one.kind <= Kind::kText; };
  if (a.is(Kind::kOpaque) || b.is(Kind::kOpaque) || (!simple(a) && !simple(b))) return unknown("a comparison of objects");
  if (!work(1 + a.text.size() / 16)) return false;
  *result = a.is_number() && b.is_number() ? a.number == b.number
                                           : a.kind == b.kind && (!a.is(Kind::kText) || a.text == b.text);
  return true;
}

bool TemplateRenderer::contains(const Value& all, const Value& one, bool* result) {
  *result = false;
  if (all.is(Kind::kText)) {
    if (!one.is(Kind::kText)) return one.is(Kind::kOpaque) ? unknown("a function as a value") : fail("'in' a text needs a text");
    if (!work(1 + all.text.size())) return false;
    *result = all.text.find(one.text) != all.text.npos;
    return true;
  }
  if (all.is(Kind::kMessage)) {
    if (!one.is(Kind::kText)) return unknown("another key than a text");
    *result = one.text == "role" || one.text == "content";
    return true;
  }
  if (all.is(Kind::kUndefined)) return true;
  if (all.is(Kind::kNone) || all.is_number()) return fail("'in' something that is no list");
  if (!all.is(Kind::kList)) return unknown("'in' an object");
  for (const Value& item : *all.list) {
    if (!equal(item, one, result)) return false;
    if (*result) return true;
  }
  return true;
}

bool TemplateRenderer::compare(Comparison comparison, const Value& a, const Value& b, bool* result) {
  bool fine = true;
  switch (comparison) {
    case Comparison::kEqual:
      return equal(a, b, result);
    case Comparison::kUnequal:
      fine = equal(a, b, result);
      *result = !*result;
      return fine;
    case Comparison::kIn:
      return contains(b, a, result);
    case Comparison::kNotIn:
      fine = contains(b, a, result);
      *result = !*result;
      return fine;
    default:
      break;
  }
  int order;
  if (a.is_number() && b.is_number()) {
    order = a.number < b.number ? -1 : a.number > b.number;
  } else if (a.is(Kind::kText) && b.is(Kind::kText)) {
    order = a.text.compare(b.text);  // bytes of UTF-8 are in the order of characters
  } else {
    return a.is(Kind::kUndefined) || b.is(Kind::kUndefined) ? fail("something that is undefined is compared")
                                                            : unknown("a comparison of objects");
  }
  *result = comparison == Comparison::kBelow    ? order < 0
            : comparison == Comparison::kAtMost ? order <= 0
            : comparison == Comparison::kAbove  ? order > 0
                                                : order >= 0;
  return true;
}

}  // namespace edgedec::engine
