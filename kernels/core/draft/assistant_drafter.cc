#include "core/draft/assistant_drafter.h"

#include <utility>

namespace edgedec::engine {

AssistantDrafter::AssistantDrafter(std::unique_ptr<AssistantSteps> steps, int tap)
    : GrowingDrafter(1), steps_(std::move(steps)), tap_(tap), state_(static_cast<size_t>(steps_->sizes().hidden)) {
  pretrained = true;
}

Status AssistantDrafter::begin(Span<const int32_t> tokens, size_t kept) {
  if (at_ && *at_ >= static_cast<int64_t>(kept)) at_.reset();
  return GrowingDrafter::begin(tokens, kept);
}

Status AssistantDrafter::read(int64_t start, Span<const float> hidden) {
  if (hidden.empty()) return {};
  const size_t before = hidden.size() / state_.size() - 1;
  const Span<const float> last = hidden.from(before * state_.size());
  state_.assign(last.begin(), last.end());
  at_ = start + static_cast<int64_t>(before);
  return {};
}

Status AssistantDrafter::propose(int limit, double floor, Source self, DraftTree* tree) {
  const int64_t before = static_cast<int64_t>(tokens_.size()) - 1;
  if (limit < 1 || before < 1 || at_ != before - 1) return {};
  int64_t length = 0;
  EDGEDEC_TRY(steps_->look(&length, &slots_));
  if (length != before) return {};
  EDGEDEC_TRY(steps_->step({tokens_.back(), before, slots_, state_, {}}, &found_));
  return grow(found_, limit, floor, self, tree);
}

Status AssistantDrafter::feed(const std::vector<int>& chosen, bool* fed) {
  *fed = true;
  const int64_t position = static_cast<int64_t>(tokens_.size()) - 1;
  for (int node : chosen) {
    const auto at = static_cast<size_t>(node);
    const Span<const float> state(state_of(tree_.parents[at]), state_.size());
    EDGEDEC_TRY(steps_->step({tree_.tokens[at], position, slots_, {}, state}, &found_));
    EDGEDEC_TRY(followed(node, found_, 0));
  }
  return {};
}

}  // namespace edgedec::engine
