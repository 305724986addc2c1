#include "core/grammar/literals.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/format.h"
#include "core/base/utf8.h"

namespace edgedec::engine {
namespace {

constexpr double kMostNumber = 9223372036854774784.0;  // that can be written, in either direction
// Keywords that could refuse a value of const or enum, and the types of those.
struct ValueKeyword {
  std::string_view name;
  uint8_t types;
};
constexpr ValueKeyword kBesideValues[] = {
    {"pattern", kTypeText},          {"minimum", kTypeNumber},           {"maximum", kTypeNumber},
    {"exclusiveMinimum", kTypeNumber}, {"exclusiveMaximum", kTypeNumber}, {"multipleOf", kTypeNumber},
    {"items", kTypeList},            {"prefixItems", kTypeList},         {"additionalItems", kTypeList},
    {"minItems", kTypeList},         {"maxItems", kTypeList},            {"properties", kTypeObject},
    {"required", kTypeObject},       {"additionalProperties", kTypeObject}, {"patternProperties", kTypeObject},
    {"minProperties", kTypeObject},  {"maxProperties", kTypeObject}};

uint8_t type_of(JsonValue value) {
  switch (value.kind()) {
    case JsonValue::Kind::kNull: return kTypeNull;
    case JsonValue::Kind::kFlag: return kTypeFlag;
    case JsonValue::Kind::kWhole: return kTypeInteger;
    case JsonValue::Kind::kReal: return std::floor(*value.number()) == *value.number() ? kTypeInteger : kTypeFraction;
    case JsonValue::Kind::kText: return kTypeText;
    case JsonValue::Kind::kList: return kTypeList;
    default: return kTypeObject;
  }
}

// Whether lengths of the conjunction permit a text.
bool fits(const Conjunction& all, JsonValue value) {
  if (!value.text()) return true;
  const auto length = static_cast<double>(characters(*value.text()));
  return std::all_of(all.parts.begin(), all.parts.end(), [&](const SchemaPart& part) {
    const double most = part.value["maxLength"].number().value_or(INFINITY);
    return length >= part.value["minLength"].number().value_or(0.0) && length <= most;
  });
}

Status check_beside(const Conjunction& all, uint8_t type) {
  for (const SchemaPart& part : all.parts)
    for (const ValueKeyword& keyword : kBesideValues)
      if ((keyword.types & type) && !part.value[keyword.name].missing())
        return refused(keyword.name, part.place, "cannot be kept to beside const or enum", "leave it out");
  return {};
}

// The values that one schema names.
std::vector<SchemaPart> named_by(const SchemaPart& part) {
  std::vector<SchemaPart> found;
  if (!part.value["const"].missing()) {
    found.push_back(part.at("const"));
  } else {
    for (size_t at = 0; at < part.value["enum"].size(); ++at) found.push_back(part.at("enum", at));
  }
  return found;
}

}  // namespace

Status values_of(const Conjunction& all, std::vector<Conjunction>* options, bool* found) {
  std::vector<SchemaPart> kept;
  for (const SchemaPart& part : all.parts) {
    const bool one = !part.value["const"].missing();
    if (!one && part.value["enum"].missing()) continue;
    if (!one && !part.value["enum"].is_list()) return refused("enum", part.place, "is no list", "hand in the values");
    std::vector<SchemaPart> named = named_by(part);
    if (*found) {
      std::vector<std::string> texts;
      for (const SchemaPart& value : named) texts.push_back(value.value.canonical());
      std::sort(texts.begin(), texts.end());
      const auto gone = [&](const SchemaPart& value) {
        return !std::binary_search(texts.begin(), texts.end(), value.value.canonical());
      };
      kept.erase(std::remove_if(kept.begin(), kept.end(), gone), kept.end());
    } else {
      kept = std::move(named);
    }
    *found = true;
  }
  for (SchemaPart& value : kept) {
    const uint8_t type = type_of(value.value);
    if (!(all.types & type) || !fits(all, value.value)) continue;
    EDGEDEC_TRY(check_beside(all, type));
    value.used = SchemaPart::kIsValue;
    Conjunction option;
    option.parts.push_back(std::move(value));
    options->push_back(std::move(option));
  }
  return {};
}

Status literal_rule(const SchemaPart& part, RuleSource& source, Rule* rule) {
  const JsonValue value = part.value;
  const auto inner = [&](size_t at, const std::string& name) {
    Conjunction one;
    one.parts.push_back({value.at(at), part.place + "/" + name, SchemaPart::kIsValue});
    return source.rule_of(std::move(one));
  };
  rule->kind = RuleKind::kLiteral;
  switch (value.kind()) {
    case JsonValue::Kind::kFlag: rule->text = *value.flag() ? "true" : "false"; break;
    case JsonValue::Kind::kWhole:
    case JsonValue::Kind::kReal:
      if (!value.whole() && !(std::fabs(*value.number()) <= kMostNumber))
        return refused("const", part.place, "cannot be written exactly", "use numbers of at most 64 bits");
      rule->text = value.whole() ? decimal(*value.whole()) : plain_number(*value.number());
      break;
    case JsonValue::Kind::kText:
      rule->kind = RuleKind::kQuoted;
      rule->text = *value.text();
      if (!is_utf8(rule->text)) return refused("const", part.place, "has half a character", "use whole ones");
      break;
    case JsonValue::Kind::kList:
      rule->kind = RuleKind::kArray;
      rule->least = rule->most = static_cast<int64_t>(value.size());
      for (size_t at = 0; at < value.size(); ++at) rule->parts.push_back(inner(at, decimal(uint64_t{at})));
      break;
    case JsonValue::Kind::kObject:
      rule->kind = RuleKind::kObject;
      for (size_t at = 0; at < value.size(); ++at) {
        const std::string key(value.at(at).key());
        if (!is_utf8(key)) return refused("const", part.place, "has half a character", "use whole ones");
        rule->fields.push_back({quoted_json(key), inner(at, key), true});
      }
      break;
    default: rule->text = "null";
  }
  return {};
}

std::string quoted_json(std::string_view text) {
  JsonWriter writer(false);
  return writer.text(text).take();
}

std::string plain_number(double value) {
  std::string text = real_text(value);
  const size_t mark = text.find('e');
  const int power = mark == text.npos ? 0 : std::atoi(text.c_str() + mark + 1);
  text.resize(std::min(mark, text.size()));
  const bool negative = !text.empty() && text[0] == '-';
  std::string digits = text.substr(negative);
  const size_t point = std::min(digits.find('.'), digits.size());
  if (point < digits.size()) digits.erase(point, 1);
  auto whole = static_cast<long>(point) + power;  // digits before the point
  if (whole <= 0) {
    digits.insert(0, static_cast<size_t>(1 - whole), '0');
    whole = 1;
  }
  if (static_cast<size_t>(whole) > digits.size()) digits.append(static_cast<size_t>(whole) - digits.size(), '0');
  std::string fraction = digits.substr(static_cast<size_t>(whole));
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  return (negative ? "-" : "") + digits.substr(0, static_cast<size_t>(whole)) + (fraction.empty() ? "" : "." + fraction);
}

}  // namespace edgedec::engine
