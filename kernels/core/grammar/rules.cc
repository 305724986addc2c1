#include "core/grammar/rules.h"

#include <algorithm>

namespace edgedec::engine {
namespace {

uint32_t above(uint32_t height) { return height == kEndless ? kEndless : height + 1; }

// The height of an array: that of its highest item that has to be there.
uint32_t array_height(const Rules& rules, const Rule& rule) {
  uint32_t most = 0;
  const auto needed = static_cast<size_t>(std::min<int64_t>(rule.least, static_cast<int64_t>(rule.parts.size())));
  for (size_t at = 0; at < needed; ++at) most = std::max(most, above(rules[rule.parts[at]].height));
  if (rule.least > static_cast<int64_t>(rule.parts.size()))
    most = std::max(most, rule.rest == kNoRule ? kEndless : above(rules[rule.rest].height));
  return rule.least > rule.most ? kEndless : most;
}

uint32_t height_of(const Rules& rules, const Rule& rule) {
  uint32_t found = 0;
  switch (rule.kind) {
    case RuleKind::kNothing: return kEndless;
    case RuleKind::kChoice:
      found = kEndless;
      for (RuleId part : rule.parts) found = std::min(found, rules[part].height);
      return found;
    case RuleKind::kArray: return array_height(rules, rule);
    case RuleKind::kObject:
      for (const Field& field : rule.fields)
        if (field.required) found = std::max(found, field.value == kNoRule ? kEndless : above(rules[field.value].height));
      return found;
    case RuleKind::kDecimal: return rule.signs[0].none() && rule.signs[1].none() ? kEndless : 0;
    default: return rule.least > rule.most ? kEndless : 0;
  }
}

// Finds the least heights: each round settles those that need nothing higher than the round before.
void find_heights(Rules* rules) {
  std::vector<std::vector<RuleId>> users(rules->all.size());
  std::vector<RuleId> todo;
  for (RuleId at = 0; at < rules->all.size(); ++at) {
    const Rule& rule = (*rules)[at];
    for (RuleId part : rule.parts) users[part].push_back(at);
    for (const Field& field : rule.fields)
      if (field.value != kNoRule) users[field.value].push_back(at);
    if (rule.rest != kNoRule) users[rule.rest].push_back(at);
    todo.push_back(at);
  }
  while (!todo.empty()) {
    std::vector<RuleId> changed;
    for (RuleId at : todo) {
      const uint32_t height = height_of(*rules, (*rules)[at]);
      if (height >= rules->all[at].height) continue;
      rules->all[at].height = height;
      changed.insert(changed.end(), users[at].begin(), users[at].end());
    }
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    todo = std::move(changed);
  }
}

// Puts the parts of the choices among the parts of a choice in their place, each once.
class Flattening {
 public:
  explicit Flattening(const Rules& rules) : rules_(rules), seen_(rules.all.size(), 0) {}

  // False: all of it takes too long.
  bool flatten(std::vector<RuleId>* parts) {
    std::vector<RuleId> todo(parts->rbegin(), parts->rend()), flat;
    ++round_;
    while (!todo.empty()) {
      const RuleId at = todo.back();
      todo.pop_back();
      if (rules_[at].height == kEndless || seen_[at] == round_) continue;
      if (++steps_ > kMostSteps) return false;
      seen_[at] = round_;
      const std::vector<RuleId>& inner = rules_[at].parts;
      if (rules_[at].kind == RuleKind::kChoice) todo.insert(todo.end(), inner.rbegin(), inner.rend());
      else flat.push_back(at);
    }
    *parts = std::move(flat);
    return true;
  }

 private:
  static constexpr size_t kMostSteps = 1 << 20;

  const Rules& rules_;
  std::vector<uint32_t> seen_;  // the round in which a rule was seen last
  uint32_t round_ = 0;
  size_t steps_ = 0;
};

void add_key(const std::string& key, std::vector<KeyNode>* nodes) {
  uint32_t at = 0;
  for (char one : key) {
    const auto byte = static_cast<uint8_t>(one);
    uint32_t child = (*nodes)[at].child;
    while (child && (*nodes)[child].byte != byte) child = (*nodes)[child].next;
    if (!child) {
      child = static_cast<uint32_t>(nodes->size());
      nodes->push_back({byte, 0, (*nodes)[at].child});
      (*nodes)[at].child = child;
    }
    at = child;
  }
}

void trim(const Rules& rules, Rule* rule) {
  const auto possible = [&](RuleId at) { return at != kNoRule && rules[at].height != kEndless; };
  if (!possible(rule->rest)) rule->rest = kNoRule;
  for (Field& field : rule->fields)
    if (!possible(field.value)) field.value = kNoRule;
  if (rule->kind == RuleKind::kObject) {
    rule->keys.assign(1, {});
    for (const Field& field : rule->fields) add_key(field.key, &rule->keys);
    const auto gone = [](const Field& field) { return field.value == kNoRule; };
    rule->fields.erase(std::remove_if(rule->fields.begin(), rule->fields.end(), gone), rule->fields.end());
  }
  if (rule->kind != RuleKind::kArray) return;
  for (size_t at = 0; at < rule->parts.size(); ++at)
    if (!possible(rule->parts[at])) rule->most = std::min(rule->most, static_cast<int64_t>(at));
  if (rule->rest == kNoRule) rule->most = std::min(rule->most, static_cast<int64_t>(rule->parts.size()));
}

}  // namespace

bool finish_rules(Rules* rules) {
  find_heights(rules);
  Flattening flattening(*rules);
  std::vector<std::vector<RuleId>> flat(rules->all.size());
  for (RuleId at = 0; at < rules->all.size(); ++at) {
    if ((*rules)[at].kind != RuleKind::kChoice) continue;
    flat[at] = (*rules)[at].parts;
    if (!flattening.flatten(&flat[at])) return false;
  }
  for (RuleId at = 0; at < rules->all.size(); ++at) {
    if ((*rules)[at].kind == RuleKind::kChoice) rules->all[at].parts = std::move(flat[at]);
    else trim(*rules, &rules->all[at]);
  }
  return true;
}

Rules rules_of_choices(const std::vector<std::string>& choices) {
  Rules rules;
  Rule root;
  root.kind = RuleKind::kChoice;
  for (const std::string& choice : choices) {
    root.parts.push_back(static_cast<RuleId>(rules.all.size()));
    rules.all.emplace_back();
    rules.all.back().kind = RuleKind::kLiteral;
    rules.all.back().text = choice;
  }
  rules.root = static_cast<RuleId>(rules.all.size());
  rules.all.push_back(std::move(root));
  finish_rules(&rules);
  return rules;
}

}  // namespace edgedec::engine
