// Drafters that grow a tree of likely tokens behind the committed ones, and follow the most probable of them first.
#pragma once

#include <vector>

#include "core/decode/drafter.h"
#include "core/draft/choices.h"
#include "core/draft/head_pass.h"
#include "core/draft/tree_builder.h"

namespace edgedec::engine {

class GrowingDrafter : public Drafter {
 public:
  void sampled(const DrawParams& params) override { params_ = params; }
  Status begin(Span<const int32_t> tokens, size_t kept) override;
  Status commit(Span<const int32_t> tokens) override;

 protected:
  // `beam`: most nodes that share a pass.
  explicit GrowingDrafter(size_t beam) : beam_(beam) {}

  // Grows a draft of at most `limit` tokens. `answer`: what is predicted behind the last committed token, and the state for
  // it.
  Status grow(const HeadPass& answer, int limit, double floor, Source self, DraftTree* tree);
  // Computes what follows `chosen` nodes and calls followed() for each; `fed`: whether there was room.
  virtual Status feed(const std::vector<int>& chosen, bool* fed) = 0;
  // Notes what a pass found for a node in its row.
  Status followed(int node, const HeadPass& found, size_t row);
  // The state behind a node that was fed, or behind the root.
  const float* state_of(int node) const { return states_.data() + static_cast<size_t>(node + 1) * width_; }

  std::vector<int32_t> tokens_;  // committed
  TreeBuilder tree_;             // the draft under way

 private:
  Status follow(int limit, double floor);
  Status extend(int node, const HeadPass& found, size_t row);

  const size_t beam_;
  DrawParams params_;
  size_t start_ = 0;  // tokens before the reply
  DrawHistory history_;
  size_t width_ = 0;  // numbers of a state
  std::vector<float> states_;
  std::vector<int> open_;  // nodes that can be followed and were not
  std::vector<int32_t> path_;
  Choices choices_;
  std::vector<Choice> found_;
};

}  // namespace edgedec::engine
