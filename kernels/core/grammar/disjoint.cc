#include "core/grammar/disjoint.h"

#include <algorithm>

namespace edgedec::engine {
namespace {

enum class ValueKind { kNone, kNull, kFlag, kNumber, kText, kList, kObject };

ValueKind value_kind(const Rule& rule) {
  switch (rule.kind) {
    case RuleKind::kLiteral: {
      const char first = rule.text.empty() ? 'n' : rule.text[0];
      return first == 'n' ? ValueKind::kNull : first == 't' || first == 'f' ? ValueKind::kFlag : ValueKind::kNumber;
    }
    case RuleKind::kQuoted:
    case RuleKind::kPattern:
    case RuleKind::kString: return ValueKind::kText;
    case RuleKind::kInteger:
    case RuleKind::kDecimal:
    case RuleKind::kNumber: return ValueKind::kNumber;
    case RuleKind::kArray: return ValueKind::kList;
    case RuleKind::kObject: return ValueKind::kObject;
    default: return ValueKind::kNone;
  }
}

class Disjointness {
 public:
  explicit Disjointness(const Rules& rules) : rules_(rules) {}

  bool of(RuleId a, RuleId b, int depth) {
    for (RuleId one : leaves(a))
      for (RuleId other : leaves(b))
        if (!single(rules_[one], rules_[other], depth)) return false;
    return true;
  }

 private:
  static constexpr int kMostDepth = 4;
  static constexpr size_t kMostSteps = 1 << 20;

  std::vector<RuleId> leaves(RuleId at) const {
    return rules_[at].kind == RuleKind::kChoice ? rules_[at].parts : std::vector<RuleId>{at};
  }

  bool single(const Rule& a, const Rule& b, int depth) {
    if (++steps_ > kMostSteps) return false;
    if (a.height == kEndless || b.height == kEndless || value_kind(a) != value_kind(b)) return true;
    if (a.kind != b.kind) return false;
    if (a.kind == RuleKind::kLiteral || a.kind == RuleKind::kQuoted) return a.text != b.text;
    return a.kind == RuleKind::kObject && depth < kMostDepth && (apart(a, b, depth) || apart(b, a, depth));
  }

  // Whether a key that `a` requires has another value in `b`.
  bool apart(const Rule& a, const Rule& b, int depth) {
    for (const Field& field : a.fields) {
      if (!field.required) continue;
      const auto same = [&](const Field& other) { return other.key == field.key; };
      const auto found = std::find_if(b.fields.begin(), b.fields.end(), same);
      steps_ += b.fields.size();
      const RuleId other = found != b.fields.end() ? found->value : b.rest;
      if (other == kNoRule || of(field.value, other, depth + 1)) return true;  // kNoRule: `b` has no such key
    }
    return false;
  }

  const Rules& rules_;
  size_t steps_ = 0;
};

}  // namespace

bool are_disjoint(const Rules& rules, const std::vector<RuleId>& options) {
  Disjointness disjointness(rules);
  for (size_t one = 0; one < options.size(); ++one)
    for (size_t other = one + 1; other < options.size(); ++other)
      if (!disjointness.of(options[one], options[other], 0)) return false;
  return true;
}

}  // namespace edgedec::engine
