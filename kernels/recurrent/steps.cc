#include "recurrent/steps.h"

#include "common/sequences.h"

namespace edgedec::recurrent {
namespace {

constexpr size_t kMostTokens = INT32_MAX;  // of a sequence; sums of two do not wrap around

bool is_chain(const Sequence& one) {
  for (size_t m = 0; m < one.tokens; ++m)
    if (one.parents[m] != static_cast<int64_t>(m) - 1) return false;
  return true;
}

// Tokens of the pass that it commits: the first ones of a long chain.
size_t committed_tokens(const Sequence& one, size_t undone) {
  return one.tokens > undone && is_chain(one) ? one.tokens - undone : 0;
}

// The rows of a convolution that ends at token m of the pass, or at slot length + m where m is below 0.
void find_rows(const Sequence& one, size_t taps, int64_t m, const float* zeros, const float** rows) {
  for (size_t tap = taps; tap-- > 0;) {
    const int64_t slot = static_cast<int64_t>(one.length) + m;
    if (m >= 0) {
      rows[tap] = one.tokens_at + static_cast<size_t>(m) * one.token_row;
      m = one.parents[m];
    } else {
      rows[tap] = slot < 0 ? zeros : one.trail + static_cast<size_t>(slot) % kTrailSlots * one.trail_row;
      --m;
    }
  }
}

}  // namespace

const char* taps_problem(size_t taps) { return taps && taps <= kMostTaps ? nullptr : "kernel must be 1 to 8"; }

const char* problem(const Sequence& one, size_t taps) {
  const size_t undone = kTrailSlots - (taps - 1);
  if (one.length > kMostTokens || one.tokens > kMostTokens) return "length is not a possible number of tokens";
  if (one.applied > one.length) return "applied exceeds length";
  if (one.length - one.applied > undone) return "applied is too far behind length: the trail has lost rows between them";
  if (const char* wrong = parents_problem(one.parents, one.tokens)) return wrong;
  return one.tokens > undone && !is_chain(one) ? "a tree has more tokens than the trail has rows for" : nullptr;
}

Walk walk(const Sequence& one, size_t taps, const float* zeros, Step* steps) {
  const size_t before = one.length - one.applied, sure = committed_tokens(one, kTrailSlots - (taps - 1));
  Walk made{steps, before + one.tokens, before + sure, 0};
  for (size_t i = 0; i < made.count; ++i) {
    Step& step = steps[i];
    const int64_t m = static_cast<int64_t>(i) - static_cast<int64_t>(before);
    find_rows(one, taps, m, zeros, step.rows);
    step.token = m < 0 ? kNone : static_cast<int32_t>(m);
    step.keep = kNone;
    step.from = kState;
    step.follows = i > 0;
    step.leaf = i >= made.committed;
    if (i < made.committed) continue;
    const int64_t parent = one.parents[m] + static_cast<int64_t>(before);  // the step
    step.follows = i > 0 && parent == static_cast<int64_t>(i) - 1;
    if (parent < static_cast<int64_t>(made.committed)) continue;
    steps[parent].leaf = false;
    if (step.follows) continue;
    int32_t& kept = steps[parent].keep;
    if (kept == kNone) kept = static_cast<int32_t>(made.copies++);
    step.from = kept;
  }
  return made;
}

}  // namespace edgedec::recurrent
