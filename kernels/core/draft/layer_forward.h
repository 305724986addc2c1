// A decoder layer that drafts: it reads hidden states of its target, and has a cache of its own. A host computes its passes.
#pragma once

#include <cstdint>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/decode/drafter.h"
#include "core/draft/head_pass.h"

namespace edgedec::engine {

// Sizes of a layer. A host of the core hands them in as they lie here.
struct LayerSizes {
  int64_t width = 0;     // numbers of a token's hidden states
  int64_t hidden = 0;    // numbers of a state of its own
  int64_t capacity = 0;  // positions in its cache
  int64_t longest = 0;   // most tokens of a pass
  // Bytes that a pass reads: always; where it has committed tokens; where it predicts, with all ids; of all experts; of a
  // slot of the cache; and those of the embedding where no pass reads it for its head.
  int64_t always = 0, committed = 0, head = 0, experts = 0, slot = 0, table = 0;
  int64_t ids = 1;                // that its head predicts
  int64_t count = 0, chosen = 0;  // experts, and those that a token takes
};

// The arguments of a pass. Each token is the one that follows its hidden state.
struct LayerPass {
  Span<const int32_t> tokens;
  Span<const float> taps;    // hidden states of the target, of the first tokens
  Span<const float> states;  // HeadPass::states of the others
  Span<const int> parents;   // as Forward::extend has them
  Span<const int> rows;      // indices of the tokens to predict the next one of
  Span<const int64_t> keep;  // ids to predict; none: all
};

// One sequence. It counts its work.
class LayerForward {
 public:
  explicit LayerForward(const LayerSizes& sizes) : sizes_(sizes) {}
  virtual ~LayerForward() = default;

  const LayerSizes& sizes() const { return sizes_; }
  // Positions in the cache.
  int64_t length() const { return length_; }
  const DraftWork& work() const { return work_; }

  // Runs a pass and appends its tokens. A failed one appends nothing.
  Status step(const LayerPass& pass, HeadPass* found);
  // Forgets every token from position `length` on; behind a pass over a tree, before the next one.
  Status rewind(int64_t length);

 protected:
  virtual Status compute(const LayerPass& pass, HeadPass* found) = 0;
  virtual Status forget(int64_t length) = 0;

 private:
  int64_t read_bytes(const LayerPass& pass) const;

  const LayerSizes sizes_;
  int64_t length_ = 0;
  bool lost_ = false;  // whether the host may have appended tokens of a pass that failed
  DraftWork work_;
};

}  // namespace edgedec::engine
