#include "core/grammar/typed_rules.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "core/base/span.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kMostInteger = INT64_MAX - 1023;  // the largest of 64 bits that is a float64
constexpr int64_t kMostCount = int64_t{1} << 31;
constexpr size_t kMostKeys = 4096;
// Keywords that cannot be kept to where a value may be of their type.
constexpr std::string_view kObjectRefused[] = {"patternProperties", "minProperties", "maxProperties"};
constexpr std::string_view kNumberRefused[] = {"multipleOf"};
// Formats that Python keeps to, as patterns; others are notes. Those without a pattern cannot be kept to.
#define EDGEDEC_DATE                                                                                        \
  "\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|[12]\\d))"
#define EDGEDEC_TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:(?:[0-5]\\d|60)(?:\\.\\d+)?(?:[zZ]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define EDGEDEC_OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define EDGEDEC_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define EDGEDEC_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
struct Format {
  std::string_view name, pattern;
};
constexpr Format kFormats[] = {
    {"date-time", "^" EDGEDEC_DATE "[tT]" EDGEDEC_TIME "$"},
    {"time", "^" EDGEDEC_TIME "$"},
    {"date", "^" EDGEDEC_DATE "$"},
    {"email", "^" EDGEDEC_ATOM "(?:\\." EDGEDEC_ATOM ")*@" EDGEDEC_LABEL "(?:\\." EDGEDEC_LABEL ")+$"},
    {"hostname", "^" EDGEDEC_LABEL "(?:\\." EDGEDEC_LABEL ")*$"},
    {"ipv4", "^" EDGEDEC_OCTET "(?:\\." EDGEDEC_OCTET "){3}$"},
    {"uuid", "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
    {"duration", ""},
    {"ipv6", ""},
    {"uri", ""}};
#undef EDGEDEC_DATE
#undef EDGEDEC_TIME
#undef EDGEDEC_OCTET
#undef EDGEDEC_LABEL
#undef EDGEDEC_ATOM

Status none_of(const Conjunction& all, Span<const std::string_view> keywords) {
  for (const SchemaPart& part : all.parts)
    for (std::string_view keyword : keywords)
      if (!part.value[keyword].missing()) return refused(keyword, part.place, "cannot be kept to", "leave it out");
  return {};
}

Status none_of_one(const Conjunction& all, std::string_view keyword) {
  for (const SchemaPart& part : all.parts)
    if (!part.value[keyword].missing()) return refused(keyword, part.place, "cannot be kept to beside a pattern", "leave it out");
  return {};
}

// Narrows `least` and `most` by the counts that two keywords state.
Status counts(const Conjunction& all, std::string_view lower, std::string_view upper, int64_t* least, int64_t* most) {
  for (const SchemaPart& part : all.parts) {
    for (std::string_view keyword : {lower, upper}) {
      const JsonValue value = part.value[keyword];
      if (value.missing()) continue;
      const double number = value.number().value_or(-1.0);
      if (!(number >= 0.0) || std::floor(number) != number)
        return refused(keyword, part.place, "is no count", "use a whole number");
      const auto count = static_cast<int64_t>(std::min(number, static_cast<double>(kMostCount)));
      if (keyword == lower) *least = std::max(*least, count);
      else if (count < kMostCount) *most = std::min(*most, count);
    }
  }
  return {};
}

// Makes a rule the one of a pattern, which a schema at `place` has by `keyword`.
Status pattern_rule(std::string_view pattern, std::string_view keyword, const std::string& place, Rule* rule) {
  if (rule->kind == RuleKind::kPattern) return refused(keyword, place, "cannot be kept to beside another pattern", "use one");
  if (pattern.empty() && keyword == "format") return refused(keyword, place, "cannot be kept to", "leave it out");
  rule->kind = RuleKind::kPattern;
  rule->patterns.assign(1, {});
  const Status read = Pattern::parse(pattern, &rule->patterns[0]);
  if (!read.ok()) return refused(keyword, place, "has what cannot be kept to: " + read.message(), "use a simpler one");
  if (!rule->patterns[0].trim()) rule->least = 1, rule->most = 0;
  return {};
}

Status text_rule(const Conjunction& all, Rule* rule) {
  rule->kind = RuleKind::kString;
  for (const SchemaPart& part : all.parts) {
    const JsonValue pattern = part.value["pattern"];
    if (!pattern.missing() && !pattern.text()) return refused("pattern", part.place, "is no text", "hand in one");
    if (pattern.text() && !is_utf8(*pattern.text())) return refused("pattern", part.place, "has half a character", "use whole ones");
    if (pattern.text()) EDGEDEC_TRY(pattern_rule(*pattern.text(), "pattern", part.place, rule));
    const auto format = part.value["format"].text();
    for (const Format& one : kFormats)
      if (format == one.name) EDGEDEC_TRY(pattern_rule(one.pattern, "format", part.place, rule));
  }
  if (rule->kind == RuleKind::kString) return counts(all, "minLength", "maxLength", &rule->least, &rule->most);
  for (const char* keyword : {"minLength", "maxLength"}) EDGEDEC_TRY(none_of_one(all, keyword));
  return {};
}

// Narrows a range of integers by a bound. Only a bound of 53 bits can have a fraction.
void narrow(JsonValue bound, bool lower, bool exclusive, Rule* rule) {
  int64_t value;
  if (bound.whole()) {
    value = *bound.whole();
  } else {
    const double number = lower ? std::ceil(*bound.number()) : std::floor(*bound.number());
    exclusive = exclusive && number == *bound.number();
    if (std::fabs(number) > static_cast<double>(kMostInteger)) {
      const bool leaves = lower == (number < 0.0);
      if (leaves) return;
      rule->least = 1, rule->most = 0;
      return;
    }
    value = static_cast<int64_t>(number);
  }
  if (lower) rule->least = std::max(rule->least, value + (exclusive && value < INT64_MAX));
  else rule->most = std::min(rule->most, value - (exclusive && value > INT64_MIN));
}

Status bounds(const SchemaPart& part, std::string_view keyword, std::string_view exclusive, bool lower, Rule* rule) {
  const JsonValue bound = part.value[keyword], other = part.value[exclusive];
  if (!bound.missing() && !bound.number()) return refused(keyword, part.place, "is no number", "use one");
  if (!other.missing() && !other.number() && !other.flag()) return refused(exclusive, part.place, "is no number", "use one");
  if (!bound.missing()) narrow(bound, lower, other.flag() == true, rule);  // a flag, as draft 4 has it
  if (other.number()) narrow(other, lower, true, rule);
  return {};
}

Status integer_rule(const Conjunction& all, Rule* rule) {
  EDGEDEC_TRY(none_of(all, {kNumberRefused, std::size(kNumberRefused)}));
  rule->kind = RuleKind::kInteger;
  rule->least = -kMostInteger;
  rule->most = kMostInteger;
  for (const SchemaPart& part : all.parts) {
    EDGEDEC_TRY(bounds(part, "minimum", "exclusiveMinimum", true, rule));
    EDGEDEC_TRY(bounds(part, "maximum", "exclusiveMaximum", false, rule));
  }
  return {};
}

// Takes a bound that leaves less than the one before.
void take(std::optional<Bound>* found, const Bound& bound, bool lower) {
  const bool narrower = !*found || (lower ? bound.value > (*found)->value : bound.value < (*found)->value);
  if (narrower) *found = bound;
  else if (bound.value == (*found)->value) (*found)->open |= bound.open;
}

Status take_bounds(const SchemaPart& part, std::string_view keyword, std::string_view exclusive, bool lower,
                   std::optional<Bound>* found) {
  const JsonValue bound = part.value[keyword], other = part.value[exclusive];
  for (const auto& [name, value] : {std::pair(keyword, bound), std::pair(exclusive, other)}) {
    if (value.missing() || (name == exclusive && value.flag())) continue;
    if (!value.number()) return refused(name, part.place, "is no number", "use one");
    if (std::fabs(*value.number()) > static_cast<double>(kMostInteger))
      return refused(name, part.place, "cannot be kept to", "numbers have at most the digits of 64 bits");
    const bool open = name == exclusive || other.flag() == true;  // a flag, as draft 4 has it
    take(found, {*value.number(), open}, lower);
  }
  return {};
}

Status number_rule(const Conjunction& all, Rule* rule) {
  EDGEDEC_TRY(none_of(all, {kNumberRefused, std::size(kNumberRefused)}));
  std::optional<Bound> least, most;
  for (const SchemaPart& part : all.parts) {
    EDGEDEC_TRY(take_bounds(part, "minimum", "exclusiveMinimum", true, &least));
    EDGEDEC_TRY(take_bounds(part, "maximum", "exclusiveMaximum", false, &most));
  }
  rule->kind = least || most ? RuleKind::kDecimal : RuleKind::kNumber;
  if (rule->kind == RuleKind::kNumber) return {};
  const auto turned = [](const Bound& bound) { return Bound{std::fabs(bound.value), bound.open}; };
  const std::optional<Bound> below = least ? std::optional(turned(*least)) : std::nullopt;
  const Bound none = {1.0, true};
  const bool positive = !most || most->value >= 0.0, negative = !least || least->value < 0.0;
  const Bound from = least && least->value >= 0.0 ? turned(*least) : Bound();
  const std::optional<Bound> to = most ? std::optional(turned(*most)) : most;
  if (positive) rule->signs.emplace_back(from, to);
  else rule->signs.emplace_back(none, none);
  if (negative) rule->signs.emplace_back(most && most->value < 0.0 ? turned(*most) : Bound{0.0, true}, below);
  else rule->signs.emplace_back(none, none);
  return {};
}

// The schemas of first items and of further ones; `items` was a list before 2020.
struct ItemSchemas {
  std::string_view first = "prefixItems", rest = "items";

  explicit ItemSchemas(JsonValue schema) {
    if (schema["items"].is_list()) first = "items", rest = "additionalItems";
  }
};

Status array_rule(const Conjunction& all, RuleSource& source, Rule* rule) {
  rule->kind = RuleKind::kArray;
  EDGEDEC_TRY(counts(all, "minItems", "maxItems", &rule->least, &rule->most));
  size_t first = 0;
  for (const SchemaPart& part : all.parts) {
    const JsonValue list = part.value[ItemSchemas(part.value).first];
    if (!list.missing() && !list.is_list()) return refused("prefixItems", part.place, "is no list", "hand in a list of schemas");
    first = std::max(first, list.size());
  }
  const auto item = [&](size_t at) {
    Conjunction found;
    for (const SchemaPart& part : all.parts) {
      const ItemSchemas names(part.value);
      if (at < part.value[names.first].size()) found.parts.push_back(part.at(names.first, at));
      else if (!part.value[names.rest].missing()) found.parts.push_back(part.at(names.rest));
    }
    return source.rule_of(std::move(found));
  };
  for (size_t at = 0; at < first; ++at) rule->parts.push_back(item(at));
  rule->rest = item(first);
  return {};
}

// A key that a schema names, and its place in the order of all of them.
struct NamedKey {
  std::string_view name;
  size_t order;
  bool required;
};

Status read_keys(const Conjunction& all, std::vector<NamedKey>* keys) {
  for (const SchemaPart& part : all.parts) {
    const JsonValue named = part.value["properties"];
    if (!named.missing() && !named.is_object()) return refused("properties", part.place, "is no object", "hand in one");
    for (size_t at = 0; at < named.size(); ++at) keys->push_back({named.at(at).key(), keys->size(), false});
  }
  for (const SchemaPart& part : all.parts) {
    const JsonValue list = part.value["required"];
    const bool sound = list.missing() || list.is_list();
    for (size_t at = 0; sound && at < list.size(); ++at) {
      if (!list.at(at).text()) return refused("required", part.place, "names no key", "hand in a list of keys");
      keys->push_back({*list.at(at).text(), keys->size(), true});
    }
    if (!sound) return refused("required", part.place, "is no list", "hand in a list of keys");
  }
  return {};
}

// Leaves each key once, where it stands first.
void merge_keys(std::vector<NamedKey>* keys) {
  std::stable_sort(keys->begin(), keys->end(), [](const NamedKey& a, const NamedKey& b) { return a.name < b.name; });
  std::vector<NamedKey> merged;
  for (const NamedKey& key : *keys) {
    if (merged.empty() || merged.back().name != key.name) merged.push_back(key);
    else merged.back().required |= key.required;
  }
  std::sort(merged.begin(), merged.end(), [](const NamedKey& a, const NamedKey& b) { return a.order < b.order; });
  *keys = std::move(merged);
}

Status object_rule(const Conjunction& all, RuleSource& source, Rule* rule) {
  EDGEDEC_TRY(none_of(all, {kObjectRefused, std::size(kObjectRefused)}));
  rule->kind = RuleKind::kObject;
  std::vector<NamedKey> keys;
  EDGEDEC_TRY(read_keys(all, &keys));
  merge_keys(&keys);
  if (keys.size() > kMostKeys) return refused("properties", all.parts[0].place, "has too many keys", "use fewer");
  const auto value = [&](const std::string_view* name) {
    Conjunction found;
    for (const SchemaPart& part : all.parts) {
      const JsonValue own = name ? part.value["properties"][*name] : JsonValue();
      if (!own.missing()) found.parts.push_back({own, part.place + "/properties/" + std::string(*name)});
      else if (!part.value["additionalProperties"].missing()) found.parts.push_back(part.at("additionalProperties"));
    }
    return source.rule_of(std::move(found));
  };
  for (const NamedKey& key : keys) {
    const std::string name(key.name);
    if (!is_utf8(name)) return refused("properties", all.parts[0].place, "has half a character in a key", "use whole ones");
    rule->fields.push_back({quoted_json(name), value(&key.name), key.required});
  }
  rule->rest = value(nullptr);
  return {};
}

}  // namespace

Status typed_rule(const Conjunction& all, RuleSource& source, Rule* rule) {
  rule->kind = RuleKind::kLiteral;
  if (all.types & kTypeText) return text_rule(all, rule);
  if (all.types & kTypeList) return array_rule(all, source, rule);
  if (all.types & kTypeObject) return object_rule(all, source, rule);
  if (all.types & kTypeFlag) {
    rule->kind = RuleKind::kChoice;
    for (const char* word : {"true", "false"}) rule->parts.push_back(source.word(word));
    return {};
  }
  if (all.types == kTypeNull) {
    rule->text = "null";
    return {};
  }
  if (!(all.types & kTypeFraction)) return integer_rule(all, rule);
  return number_rule(all, rule);
}

}  // namespace edgedec::engine
