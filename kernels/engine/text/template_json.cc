// JSON in chat templates, as Python's json.dumps writes it, and lists and objects as Python shows them.
#include <algorithm>
#include <cmath>

#include "core/base/format.h"
#include "core/base/json.h"
#include "engine/text/template_renderer.h"
#include "engine/text/template_text.h"

namespace edgedec::engine {
namespace {

constexpr int kMostJsonLevels = 128;

// Whether Python shows a character as it is: 1 yes, 0 no, -1 not known here.
int is_shown(uint32_t code) {
  constexpr uint32_t kShown[][2] = {{0x20, 0x7E},     {0xA1, 0xAC},     {0xAE, 0x377},    {0x391, 0x3A1},  {0x3A3, 0x52F},
                                    {0x5D0, 0x5EA},   {0x620, 0x64A},   {0x904, 0x939},   {0xE01, 0xE3A},  {0x1E00, 0x1F15},
                                    {0x2010, 0x2027}, {0x2030, 0x205E}, {0x20A0, 0x20BF}, {0x2100, 0x218B}, {0x2190, 0x23FF},
                                    {0x2500, 0x2B73}, {0x3001, 0x303F}, {0x3041, 0x3096}, {0x3099, 0x30FF}, {0x4E00, 0x9FA5},
                                    {0xAC00, 0xD7A3}, {0xFF01, 0xFFBE}, {0x1F300, 0x1F64F}};
  for (const auto& [first, last] : kShown)
    if (code >= first && code <= last) return 1;
  return code < 0xA1 || code == 0xAD || (code >= 0xFDD0 && code <= 0xFDEF) ? 0 : -1;
}

// A text as Python's repr writes it; false for characters that are not known here.
bool quote(std::string_view text, std::string* out) {
  const char mark = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  *out += mark;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t code = next_utf8(text, &at);
    const int shown = is_shown(code);
    if (shown < 0) return false;
    const size_t place = code < 0x80 ? std::string_view("\n\r\t\\").find(static_cast<char>(code)) : std::string_view::npos;
    if (place != std::string_view::npos) (*out += '\\') += "nrt\\"[place];
    else if (code == static_cast<uint32_t>(mark)) (*out += '\\') += mark;
    else if (shown) out->append(text.substr(begin, at - begin));
    else {
      *out += code < 0x100 ? "\\x" : "\\u";
      for (int shift = code < 0x100 ? 4 : 12; shift >= 0; shift -= 4) *out += "0123456789abcdef"[code >> shift & 15];
    }
  }
  *out += mark;
  return true;
}

}  // namespace

// A list or an object as Python's str has it.
bool TemplateRenderer::represent(const Value& value, int level, std::string* out) {
  if (level > kMostJsonLevels) return fail("too deep a recursion");
  if (!work(1 + value.text.size() / 16)) return false;
  if (out->size() > most_bytes_) return fail("it takes too much memory");
  const auto quoted = [&](std::string_view text) { return quote(text, out) || unknown("letters of such a script as Python shows them"); };
  std::string_view text;
  if (value.is(Kind::kText)) return value.is_safe() ? unknown("a text that is marked as safe in a list") : quoted(value.text);
  if (value.is(Kind::kUndefined)) return unknown("something undefined in a list");
  if (!value.is(Kind::kList) && !value.is(Kind::kObject)) {
    if (!text_of(value, &text)) return false;
    out->append(text);
    return true;
  }
  const bool list = value.is(Kind::kList), tuple = list && value.number == kTuple;
  if (list && value.number == kView) return unknown("an object as text");
  const size_t count = list ? value.list->size() : value.object->fields.size();
  *out += tuple ? '(' : list ? '[' : '{';
  for (size_t at = 0; at < count; ++at) {
    if (at) *out += ", ";
    if (!list) {
      if (!quoted(value.object->fields[at].first)) return false;
      *out += ": ";
    }
    if (!represent(list ? (*value.list)[at] : value.object->fields[at].second, level + 1, out)) return false;
  }
  *out += tuple ? count == 1 ? ",)" : ")" : list ? "]" : "}";
  return true;
}

// The way in which a value is written, and how far it came.
struct TemplateRenderer::JsonForm {
  int64_t indent = -1;  // spaces for each level; -1: all in one line
  bool ascii = false, sorted = false;
  std::string_view between = ", ", behind_key = ": ";
  std::string out;

  void quote(std::string_view text) { out += JsonWriter(ascii).text(text).str(); }
  void line(int level) {
    if (indent >= 0) out.append(1, '\n').append(static_cast<size_t>(indent * level), ' ');
  }
};

bool TemplateRenderer::json_form(const List& arguments, JsonForm* form) {
  if (arguments.size() > 0 && !arguments[0].is(Kind::kNone)) {
    constexpr int64_t kMostSpaces = 64;
    if (!arguments[0].is(Kind::kInt) || arguments[0].number < 0 || arguments[0].number > kMostSpaces)
      return unknown("such an indent of JSON");
    form->indent = arguments[0].number;
    form->between = ",";
  }
  bool* const flags[] = {&form->ascii, &form->sorted};
  for (size_t at : {1u, 2u})
    if (arguments.size() > at && !truth(arguments[at], flags[at - 1])) return false;
  if (arguments.size() > 3 && !arguments[3].is(Kind::kNone)) {
    const Value& pair = arguments[3];
    if (!pair.is(Kind::kList) || pair.list->size() != 2) return unknown("such separators of JSON");
    for (const Value& one : *pair.list)
      if (!one.is(Kind::kText)) return unknown("such separators of JSON");
    form->between = (*pair.list)[0].text;
    form->behind_key = (*pair.list)[1].text;
  }
  return true;
}

bool TemplateRenderer::to_json(const Value& value, const List& arguments, Value* result) {
  JsonForm form;
  return json_form(arguments, &form) && write_json(value, 0, &form) && made(std::move(form.out), result);
}

bool TemplateRenderer::write_json(const Value& value, int level, JsonForm* form) {
  if (level > kMostJsonLevels) return fail("too deep a recursion");
  if (!work(1 + value.text.size() / 16)) return false;
  if (form->out.size() > most_bytes_) return fail("it takes too much memory");
  switch (value.kind) {
    case Kind::kNone: form->out += "null"; return true;
    case Kind::kBool: form->out += value.number ? "true" : "false"; return true;
    case Kind::kInt: form->out += decimal(value.number); return true;
    case Kind::kReal: form->out += real_text(value.real); return true;
    case Kind::kText: form->quote(value.text); return true;
    case Kind::kList:
      if (value.number == kView) return fail("an object is not JSON serializable");
      [[fallthrough]];
    case Kind::kObject: return write_parts(value, level, form);
    case Kind::kUndefined: return fail("Object of type Undefined is not JSON serializable");
    default: return unknown("such an object as JSON");
  }
}

bool TemplateRenderer::write_parts(const Value& value, int level, JsonForm* form) {
  const bool list = value.is(Kind::kList);
  const size_t count = list ? value.list->size() : value.object->fields.size();
  Object sorted;
  const Object* object = list ? nullptr : value.object;
  if (object && form->sorted) {
    sorted = *object;
    std::stable_sort(sorted.fields.begin(), sorted.fields.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    object = &sorted;
  }
  form->out += list ? '[' : '{';
  for (size_t at = 0; at < count; ++at) {
    if (at) form->out += form->between;
    form->line(level + 1);
    if (object) {
      if (!work(object->fields[at].first.size() / 16)) return false;
      form->quote(object->fields[at].first);
      form->out += form->behind_key;
    }
    if (!write_json(list ? (*value.list)[at] : object->fields[at].second, level + 1, form)) return false;
  }
  if (count) form->line(level);
  form->out += list ? ']' : '}';
  return true;
}

}  // namespace edgedec::engine
