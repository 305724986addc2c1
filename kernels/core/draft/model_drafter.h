// Drafting with a smaller model, the draft model.
//
// Its cache follows the committed tokens lazily: a query feeds the missing tokens and forgets the rejected ones. Every
// further token of a draft costs a pass of the draft model. The runners-up of each position come with it, and a close
// runner-up shares the next pass (a tree of two), so that its continuation is known too. (To follow up to four nodes of any
// branch in a pass was tried: tokens of the other branches are computed again, which doubles the tokens of a pass and gains
// 1 to 3 %.) Where to stop: EAGLE-2 (Li et al. 2024) and DySpec (Xiong et al. 2024) keep the most probable paths; AdaEDL
// (Agrawal et al. 2024) ends a draft by the entropy of the last step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/decode/drafter.h"
#include "core/draft/bridge.h"
#include "core/draft/choices.h"
#include "core/draft/doubts.h"
#include "core/draft/tree_builder.h"
#include "core/draft/trimmed_head.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

// The bytes of a draft model.
struct ModelBytes {
  double weights = 0.0;
  double slot = 0.0;   // of a token in the cache
  double table = 0.0;  // of a table of embeddings that the head does not share
};

class ModelDrafter final : public Drafter {
 public:
  // Drafts with `forward`, which reads and writes the target's tokens through `bridge`, and outlives it. With `trimmed`
  // its head computes the kept ids only, as long as the text consists of them.
  ModelDrafter(std::string name, DraftForward& forward, std::shared_ptr<Bridge> bridge,
               std::shared_ptr<TrimmedHead> trimmed = nullptr, ModelBytes bytes = {}, Doubts doubts = {});

  const char* name() const override { return name_.c_str(); }
  void sampled(const DrawParams& params) override { params_ = params; }
  Status begin(Span<const int32_t> tokens, size_t kept) override;
  Status commit(Span<const int32_t> tokens) override;
  Status propose(int limit, double floor, Source self, DraftTree* tree) override;
  // Greedily, a chain. Reads the end of the text anew, and with the full head: drafts of propose() also depend on earlier
  // queries, since only the end of a text that grew much is read.
  Status ahead(Span<const int32_t> tokens, int limit, std::vector<int32_t>* found) override;
  // All weights that a pass reads, and the cache as far as it is filled. Tables: also those rows of a trimmed head's table
  // that passes do not read.
  DraftWork work() const override { return work_.counts(); }
  size_t nbytes() const override;

 private:
  using Nodes = std::vector<int>;

  Rows drafted(Rows rows) const;
  Status catch_up(Span<const int32_t> ids, const Rows& rows, size_t end);
  Status feed(Span<const int32_t> tokens, const Rows& rows);
  Status pass(Span<const int32_t> tokens, Span<const int> parents, const Rows& rows);
  Status sketch(int limit, double floor);
  size_t together(double least) const;
  Status step(size_t fed);
  Status grow(int node, size_t row, Nodes* following);
  double most_reached(const Nodes& nodes) const;

  const std::string name_;
  DraftForward& forward_;
  std::shared_ptr<Bridge> bridge_;
  std::shared_ptr<TrimmedHead> trimmed_;
  const ModelBytes bytes_;
  const Doubts doubts_;
  WorkSum work_;
  DrawParams params_;
  int64_t position_ = 0;
  std::vector<int32_t> cached_;
  int64_t start_ = -1;  // tokens of the text before the reply; -1: not counted yet
  size_t skipped_ = 0;  // tokens of the text before the first cached one

  // The draft under way: nodes in the drafter's ids, and those that can be followed, best first.
  HeadRows head_;
  TreeBuilder tree_, in_target_ids_;
  DrawHistory history_;
  Nodes following_, other_;
  std::vector<int32_t> path_;
  std::vector<Choice> found_;
  Choices choices_;
};

}  // namespace edgedec::engine
