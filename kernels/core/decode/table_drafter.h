// A drafter of core/tables as speculation calls it.
#pragma once

#include "core/decode/drafter.h"
#include "core/tables/drafter.h"

namespace edgedec::engine {

// Calls `table`, which lives longer.
class TableDrafter : public Drafter {
 public:
  explicit TableDrafter(draft::Drafter& table, const char* name = "") : table_(table), name_(name) {}

  const char* name() const override { return name_; }
  size_t nbytes() const override { return table_.nbytes(); }

  Status begin(Span<const int32_t> tokens, size_t kept) override {
    table_.begin(tokens.data(), tokens.size(), kept);
    return {};
  }

  Status commit(Span<const int32_t> tokens) override {
    table_.commit(tokens.data(), tokens.size());
    return {};
  }

  Status propose(int limit, double floor, Source self, DraftTree* tree) override {
    const int count = table_.propose(limit, floor, {tokens_, parents_, probs_});
    for (int node = 0; node < count; ++node) tree->add(tokens_[node], parents_[node], probs_[node], self);
    return {};
  }

  Status observe(const DraftTree& tree, const HeadRows& rows) override {
    const draft::Answers answers = {rows.rows, rows.k, rows.ids.data(), rows.values.data(), rows.logsumexp.data(),
                                    rows.temperature};
    table_.learn(tree.size(), tree.tokens.data(), tree.parents.data(), answers);
    return {};
  }

 protected:
  draft::Drafter& table_;
  const char* name_;

 private:
  int32_t tokens_[draft::kMostNodes], parents_[draft::kMostNodes];
  double probs_[draft::kMostNodes];
};

}  // namespace edgedec::engine
