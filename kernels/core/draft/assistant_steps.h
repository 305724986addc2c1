// Steps of an assistant, a small model that reads the KV cache of its target and has none of its own. A host computes them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/decode/drafter.h"
#include "core/draft/head_pass.h"

namespace edgedec::engine {

// Sizes of an assistant. A host of the core hands them in as they lie here.
struct AssistantSizes {
  int64_t hidden = 0;   // numbers of a state: the target's
  int64_t weights = 0;  // bytes of weights that a step reads
  // Keys and values of each kind in the target's cache that it reads: bytes of a slot, and the most slots.
  int64_t slot[2] = {}, most[2] = {};
};

// The arguments of a step: it predicts what follows `token`, at `position`, behind the first `slots` slots of the target. It
// has one of `tap`, the output of the target's last layer for the token before, and `state`, of the step that drafted it.
struct AssistantStep {
  int32_t token;
  int64_t position, slots;
  Span<const float> tap, state;
};

// Steps over one sequence of the target. They leave nothing behind but counts of their work.
class AssistantSteps {
 public:
  explicit AssistantSteps(const AssistantSizes& sizes) : sizes_(sizes) {}
  virtual ~AssistantSteps() = default;

  const AssistantSizes& sizes() const { return sizes_; }
  const DraftWork& work() const { return work_; }

  // Finds the tokens that the target's cache has, and the slots that they take.
  virtual Status look(int64_t* length, int64_t* slots) = 0;

  Status step(const AssistantStep& step, HeadPass* found) {
    EDGEDEC_TRY(compute(step, found));
    ++work_.passes;
    work_.bytes_read += sizes_.weights;
    for (int kind = 0; kind < 2; ++kind) work_.bytes_read += sizes_.slot[kind] * std::min(step.slots, sizes_.most[kind]);
    return {};
  }

 protected:
  virtual Status compute(const AssistantStep& step, HeadPass* found) = 0;

 private:
  const AssistantSizes sizes_;
  DraftWork work_;
};

}  // namespace edgedec::engine
