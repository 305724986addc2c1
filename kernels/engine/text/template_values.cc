// Comparisons and conversions of values of chat templates, as Python has them.
#include "core/base/format.h"
#include "core/base/json.h"
#include "engine/text/template_renderer.h"
#include "engine/text/template_text.h"
#include "core/base/utf8_decoder.h"

namespace edgedec::engine {
namespace {

template <class T>
int order_of(T a, T b) {
  return a < b ? -1 : a > b;
}

// The order of two numbers; false for other values.
bool in_order(const Value& a, const Value& b, int* order) {
  const auto real = [](const Value& one) { return one.is(Kind::kReal) ? one.real : static_cast<double>(one.number); };
  const bool whole = a.is_number() && b.is_number();
  if (!whole && !((a.is_number() || a.is(Kind::kReal)) && (b.is_number() || b.is(Kind::kReal)))) return false;
  *order = whole ? order_of(a.number, b.number) : order_of(real(a), real(b));
  return true;
}

}  // namespace

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
    case Kind::kReal:
      *result = value.real != 0.0;
      return true;
    case Kind::kText:
      *result = !value.text.empty();
      return true;
    case Kind::kObject:
      *result = !value.object->fields.empty();
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
    case Kind::kReal:
      if (!made(real_text(value.real), &kept)) return false;
      *text = kept.text;
      return true;
    case Kind::kText:
      *text = value.text;
      return true;
    case Kind::kList:
    case Kind::kObject: {
      std::string shown;
      if (!represent(value, 0, &shown) || !made(std::move(shown), &kept)) return false;
      *text = kept.text;
      return true;
    }
    default:
      return unknown("an object as text");
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
  } else if (value.is(Kind::kObject)) {
    List keys;
    for (const auto& field : value.object->fields) keys.push_back(Value::string(field.first));
    if (!made(std::move(keys), &kept)) return false;
  } else if (value.is(Kind::kNone) || value.is_number() || value.is(Kind::kReal)) {
    return fail("a loop over something that is no list");
  } else if (!value.is(Kind::kList)) {
    return unknown("a loop over the fields of an object");
  }
  *items = kept.list;
  return true;
}

bool TemplateRenderer::equal_parts(const Value& a, const Value& b, bool* result) {
  const Level level(&depth_);
  const bool list = a.is(Kind::kList);
  if (a.kind == b.kind && a.number != b.number) return unknown("a comparison of lists of different kinds");
  const size_t count = list ? a.list->size() : a.object->fields.size();
  if (depth_ > kMostLevels) return fail("too deep a recursion");
  *result = a.kind == b.kind && count == (list ? b.list->size() : b.object->fields.size());
  for (size_t at = 0; *result && at < count; ++at) {
    if (!work(1 + (list ? 0 : count / 16))) return false;
    const Value* other = list ? &(*b.list)[at] : b.object->find(a.object->fields[at].first);
    *result = other != nullptr;
    if (other && !equal(list ? (*a.list)[at] : a.object->fields[at].second, *other, result)) return false;
  }
  return true;
}

bool TemplateRenderer::equal(const Value& a, const Value& b, bool* result) {
  const auto has_parts = [](const Value& one) { return one.is(Kind::kList) || one.is(Kind::kObject); };
  if (has_parts(a) && has_parts(b)) return equal_parts(a, b, result);
  const auto simple = [](const Value& one) { return one.kind <= Kind::kText; };
  if (a.is(Kind::kOpaque) || b.is(Kind::kOpaque) || (!simple(a) && !simple(b))) return unknown("a comparison of objects");
  if (!work(1 + a.text.size() / 16)) return false;
  int order;
  if (in_order(a, b, &order)) *result = order == 0;
  else *result = a.kind == b.kind && (!a.is(Kind::kText) || a.text == b.text);
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
  if (all.is(Kind::kObject)) {
    if (!one.is(Kind::kText)) return unknown("another key than a text");
    *result = all.object->find(one.text) != nullptr;
    return work(1 + all.object->fields.size() / 16);
  }
  if (all.is(Kind::kUndefined)) return true;
  if (all.is(Kind::kNone) || all.is_number() || all.is(Kind::kReal)) return fail("'in' something that is no list");
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
  if (in_order(a, b, &order)) {
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
