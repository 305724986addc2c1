// Drafting with an assistant of Gemma 4: it reads the target's KV cache and has none of its own.
//
// It needs the target's last state alone, that of the token before the newest. Behind drafted tokens it reads its own output,
// at the same position: so any node of a draft can be followed in any order.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/draft/assistant_steps.h"
#include "core/draft/growing_drafter.h"

namespace edgedec::engine {

class AssistantDrafter final : public GrowingDrafter {
 public:
  // Drafts with `steps` over the cache of the target, from the output of its layer `tap`.
  AssistantDrafter(std::unique_ptr<AssistantSteps> steps, int tap);

  const char* name() const override { return "assistant"; }
  Span<const int> taps() const override { return {&tap_, 1}; }
  DraftWork work() const override { return steps_->work(); }
  Status begin(Span<const int32_t> tokens, size_t kept) override;
  Status read(int64_t start, Span<const float> hidden) override;
  // Drafts nothing where the last state is missing.
  Status propose(int limit, double floor, Source self, DraftTree* tree) override;
  size_t nbytes() const override { return state_.size() * sizeof(float) + tokens_.capacity() * sizeof(int32_t); }

 private:
  Status feed(const std::vector<int>& chosen, bool* fed) override;

  std::unique_ptr<AssistantSteps> steps_;
  const int tap_;
  std::vector<float> state_;
  std::optional<int64_t> at_;  // the position that state_ belongs to
  int64_t slots_ = 0;          // of the target, at the draft under way
  HeadPass found_;
};

}  // namespace edgedec::engine
