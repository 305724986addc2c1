// Drafting with a trained head over the target's hidden states: edgedec/draft/head.py, which says where the method comes
// from.
//
// For position i the head reads the target's hidden states of token i and the token i + 1, and predicts token i + 2; behind
// drafted tokens it reads its own output instead. Hidden states wait until a draft is asked for, the newest ones only.
#pragma once

#include <memory>
#include <vector>

#include "core/decode/drafter.h"
#include "core/draft/choices.h"
#include "core/draft/tree_builder.h"
#include "engine/model/head_forward.h"

namespace edgedec::engine {

class HeadDrafter final : public Drafter {
 public:
  // Drafts with `head`, whose cache it owns, from these layers of the target. `width`: numbers of a token's hidden states.
  HeadDrafter(std::unique_ptr<HeadForward> head, std::vector<int> layers, int64_t width);

  const char* name() const override { return "head"; }
  Span<const int> taps() const override { return layers_; }
  void sampled(const DrawParams& params) override { params_ = params; }
  Status begin(Span<const int32_t> tokens, size_t kept) override;
  Status commit(Span<const int32_t> tokens) override;
  Status read(int64_t start, Span<const float> hidden) override;
  // Drafts nothing where the last hidden states are missing.
  Status propose(int limit, double floor, Source self, DraftTree* tree) override;
  size_t nbytes() const override;

 private:
  Status catch_up(bool* ready);
  Status forget(size_t stay);
  Status grow_tree(int limit, double floor);
  Status feed(std::vector<int> chosen, bool* fed);
  Status run(const std::vector<int>& chosen, const std::vector<int>& nodes);
  Status grow(int node, const HeadRows& rows, size_t row);
  size_t same(const std::vector<int>& path) const;
  float* state_of(int node) { return states_.data() + static_cast<size_t>(node + 1) * hidden_; }

  std::unique_ptr<HeadForward> head_;
  const std::vector<int> layers_;
  const size_t width_, hidden_;
  DrawParams params_;
  std::vector<int32_t> tokens_;
  size_t start_ = 0;              // tokens before the reply
  std::vector<size_t> cached_;    // positions whose hidden states the cache has read, ascending
  std::vector<size_t> waiting_;   // positions whose hidden states wait in the first rows of taps_
  std::vector<float> taps_;
  size_t next_ = 0;               // the first position whose hidden states are not known
  bool answered_ = false;         // whether answer_ is the head's prediction behind cached_
  HeadRows answer_, found_;
  std::vector<float> answer_state_;

  // The draft under way: the head's own output for each node that was fed, the root first; nodes in the cache, a path; and
  // those that can be followed and were not.
  TreeBuilder tree_;
  DrawHistory history_;
  std::vector<float> states_, fed_states_;
  std::vector<int> held_, open_;
  std::vector<int32_t> path_;
  Choices choices_;
  std::vector<Choice> chosen_;
};

}  // namespace edgedec::engine
