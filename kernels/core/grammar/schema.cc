#include "core/grammar/schema.h"

#include <algorithm>

#include "core/grammar/disjoint.h"
#include "core/grammar/hash_index.h"
#include "core/grammar/literals.h"
#include "core/grammar/schema_parts.h"
#include "core/grammar/typed_rules.h"

namespace edgedec::engine {
namespace {

constexpr JsonLimits kSchemaLimits = {1'000'000, 100, 1 << 17};
constexpr size_t kMostRules = 8192, kMostSize = 1 << 18;  // size: rules, parts and keys together

class SchemaCompiler final : public RuleSource {
 public:
  SchemaCompiler(JsonValue root, Rules* rules) : root_(root), rules_(*rules) {}

  Status compile() {
    Conjunction whole;
    whole.parts.push_back({root_});
    rules_.root = rule_of(std::move(whole));
    while (!todo_.empty()) {
      const auto [at, all] = std::move(todo_.back());
      todo_.pop_back();
      Rule rule;
      EDGEDEC_TRY(fill(all, &rule));
      size_ += 1 + rule.parts.size() + rule.fields.size();
      if (rules_.all.size() > kMostRules || size_ > kMostSize) return too_large();
      rules_.all[at] = std::move(rule);
    }
    if (!finish_rules(&rules_)) return too_large();
    for (const OneOf& one : one_of_)
      if (!are_disjoint(rules_, one.options))
        return refused("oneOf", one.place, "has alternatives that one value may both be", "use anyOf");
    if (rules_[rules_.root].height != kEndless) return {};
    return {Code::kUsage, "this JSON schema cannot be used: no value that ends keeps to it", "let a value be of it"};
  }

  // The rule of a conjunction, made now or later.
  RuleId rule_of(Conjunction all) override {
    const std::vector<uint64_t> key = all.key();
    uint64_t hash = 0;
    for (uint64_t word : key) hash = mixed(hash, word);
    const uint32_t known = index_.find(hash, [&](uint32_t at) { return keys_[at] == key; });
    if (known != HashIndex::kNone) return known;
    const auto at = static_cast<RuleId>(rules_.all.size());
    rules_.all.emplace_back();
    keys_.push_back(key);
    index_.add(hash, at);
    todo_.emplace_back(at, std::move(all));
    return at;
  }

  RuleId word(const char* text) override {
    const auto at = static_cast<RuleId>(rules_.all.size());
    rules_.all.emplace_back();
    rules_.all.back().kind = RuleKind::kLiteral;
    rules_.all.back().text = text;
    keys_.emplace_back();
    return at;
  }

 private:
  struct OneOf {
    std::string place;
    std::vector<RuleId> options;
  };

  static Status too_large() {
    return {Code::kUsage, "this JSON schema cannot be used: it is too large", "use a smaller or simpler one"};
  }

  Status fill(Conjunction all, Rule* rule) {
    if (all.parts.size() == 1 && (all.parts[0].used & SchemaPart::kIsValue)) return literal_rule(all.parts[0], *this, rule);
    bool none;
    EDGEDEC_TRY(expand(root_, &all, &none));
    if (none) return {};
    rule->kind = RuleKind::kChoice;
    std::vector<Conjunction> options;
    bool found, one;
    EDGEDEC_TRY(alternatives_of(all, &options, &found, &one));
    if (!found) EDGEDEC_TRY(values_of(all, &options, &found));
    if (found) {
      for (Conjunction& option : options) rule->parts.push_back(rule_of(std::move(option)));
      if (one) one_of_.push_back({all.parts[0].place, rule->parts});
      return {};
    }
    return typed(all, rule);
  }

  // A rule of one type, or a choice of them.
  Status typed(const Conjunction& all, Rule* rule) {
    constexpr uint8_t kKinds[] = {kTypeNull, kTypeFlag, kTypeNumber, kTypeText, kTypeList, kTypeObject};
    if (std::any_of(std::begin(kKinds), std::end(kKinds), [&](uint8_t kind) { return !(all.types & ~kind); }))
      return typed_rule(all, *this, rule);
    for (uint8_t kind : kKinds) {
      if (!(all.types & kind)) continue;
      Conjunction option = all;
      option.types &= kind;
      rule->parts.push_back(rule_of(std::move(option)));
    }
    return {};
  }

  const JsonValue root_;
  Rules& rules_;
  std::vector<std::vector<uint64_t>> keys_;  // of each rule
  HashIndex index_;
  std::vector<std::pair<RuleId, Conjunction>> todo_;
  std::vector<OneOf> one_of_;
  size_t size_ = 0;
};

}  // namespace

Status rules_of_schema(std::string_view text, Rules* rules) {
  Json json;
  if (!is_utf8(text) || !json.parse(text, kSchemaLimits))
    return {Code::kUsage, "the JSON schema is no JSON, or is too large or nested too deep",
            "it has at most 1,000,000 bytes and 100 levels"};
  const JsonValue root = json.root();
  if (!root.is_object() && !root.flag())
    return {Code::kUsage, "the JSON schema is no object", "as in {\"type\": \"object\"}"};
  *rules = {};
  return SchemaCompiler(root, rules).compile();
}

}  // namespace edgedec::engine
