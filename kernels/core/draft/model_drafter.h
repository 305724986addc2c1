// Drafting with a smaller model, the draft model: edgedec/draft/model.py, which says where the method comes from.
//
// Its cache follows the committed tokens lazily: a query feeds the missing tokens and forgets the rejected ones. Every
// further token of a draft costs a pass of the draft model. A close runner-up shares the next pass.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/decode/drafter.h"
#include "core/draft/bridge.h"
#include "core/draft/choices.h"
#include "core/draft/tree_builder.h"
#include "core/draft/trimmed_head.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

class ModelDrafter final : public Drafter {
 public:
  // Drafts with `forward`, which reads and writes the target's tokens through `bridge`, and outlives it. With `trimmed`
  // its head computes the kept ids only, as long as the text consists of them.
  ModelDrafter(std::string name, DraftForward& forward, std::unique_ptr<Bridge> bridge,
               std::shared_ptr<TrimmedHead> trimmed = nullptr);

  const char* name() const override { return name_.c_str(); }
  void sampled(const DrawParams& params) override { params_ = params; }
  Status begin(Span<const int32_t> tokens, size_t kept) override;
  Status commit(Span<const int32_t> tokens) override;
  Status propose(int limit, double floor, Source self, DraftTree* tree) override;
  size_t nbytes() const override;

 private:
  using Nodes = std::vector<int>;

  Rows drafted(Rows rows) const;
  Status catch_up(Span<const int32_t> ids, const Rows& rows);
  Status feed(Span<const int32_t> tokens, const Rows& rows);
  Status sketch(int limit, double floor);
  size_t together(double least) const;
  Status step(size_t fed);
  Status grow(int node, size_t row, Nodes* following);
  double most_reached(const Nodes& nodes) const;

  const std::string name_;
  DraftForward& forward_;
  std::unique_ptr<Bridge> bridge_;
  std::shared_ptr<TrimmedHead> trimmed_;
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
