// Texts in chat templates: their case, parts and joins, as Python's str has them.
#include <algorithm>

#include "engine/text/template_renderer.h"
#include "engine/text/white_space.h"

namespace edgedec::engine {
namespace {

bool ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

char upper(char byte) { return byte >= 'a' && byte <= 'z' ? static_cast<char>(byte - 32) : byte; }
char lower(char byte) { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte; }

}  // namespace

// Changes the case of a text: 'u' upper, 'l' lower, 'c' the first letter upper and the others lower.
bool TemplateRenderer::in_case(std::string_view text, char form, Value* result) {
  if (!ascii(text)) return unknown("the case of letters outside of ASCII");
  std::string changed(text);
  std::transform(changed.begin(), changed.end(), changed.begin(), form == 'u' ? upper : lower);
  if (form == 'c' && !changed.empty()) changed[0] = upper(changed[0]);
  return made(std::move(changed), result);
}

bool TemplateRenderer::join(const Value& items, const Value& between, Value* result) {
  const List* all;
  std::string_view middle, text;
  if (!items_of(items, &all) || !text_of(between, &middle)) return false;
  std::string joined;
  for (size_t i = 0; i < all->size(); ++i) {
    if (!text_of((*all)[i], &text) || !work(1 + (text.size() + middle.size()) / 16)) return false;
    if (joined.size() > most_bytes_) return fail("it takes too much memory");
    joined.append(i ? middle : std::string_view()).append(text);
  }
  return made(std::move(joined), result);
}

bool TemplateRenderer::replace(std::string_view text, const List& arguments, Value* result) {
  if (arguments.size() != 2) return unknown("a replacement of another kind");
  std::string_view one, other;
  if (!text_of(arguments[0], &one) || !text_of(arguments[1], &other)) return false;
  if (one.empty()) return unknown("a replacement of nothing");
  std::string out;
  size_t done = 0;
  for (size_t at; (at = text.find(one, done)) != text.npos; done = at + one.size()) {
    out.append(text.substr(done, at - done)).append(other);
    if (out.size() > most_bytes_) return fail("it takes too much memory");
    if (!work(1 + other.size() / 16)) return false;
  }
  return work(text.size()) && made(out.append(text.substr(done)), result);
}

bool TemplateRenderer::strip(Method method, std::string_view text, const List& arguments, Value* result) {
  if (!work(1 + text.size() / 16)) return false;
  const bool left = method != Method::kRightStrip, right = method != Method::kLeftStrip;
  if (arguments.empty() || arguments[0].is(Kind::kNone)) {
    if (left) text = without_space_in_front(text);
    if (right) text = without_space_at_end(text);
    *result = Value::string(text);
    return true;
  }
  if (arguments.size() != 1 || !arguments[0].is(Kind::kText)) return unknown("what is stripped");
  const std::string_view chars = arguments[0].text;
  if (!ascii(chars)) return unknown("stripping characters outside of ASCII");
  const auto goes = [&](char byte) { return chars.find(byte) != chars.npos; };
  while (left && !text.empty() && goes(text.front())) text.remove_prefix(1);
  while (right && !text.empty() && goes(text.back())) text.remove_suffix(1);
  *result = Value::string(text);
  return true;
}

bool TemplateRenderer::split(Method method, std::string_view text, const List& arguments, Value* result) {
  if (method != Method::kSplit || arguments.empty() || arguments.size() > 2 || !arguments[0].is(Kind::kText)) {
    return unknown("splitting of another kind");
  }
  if (arguments.size() == 2 && !arguments[1].is(Kind::kInt)) return unknown("splitting of another kind");
  const std::string_view at_text = arguments[0].text;
  if (at_text.empty()) return fail("empty separator");
  int64_t left = arguments.size() == 2 ? arguments[1].number : -1;
  List parts;
  for (size_t at; left != 0 && (at = text.find(at_text)) != text.npos; --left) {
    parts.push_back(Value::string(text.substr(0, at)));
    text.remove_prefix(at + at_text.size());
  }
  parts.push_back(Value::string(text));
  return work(text.size()) && made(std::move(parts), result);
}

}  // namespace edgedec::engine
