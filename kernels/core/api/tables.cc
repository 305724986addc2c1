// C ABI of the drafters, through handles. A pointer to zero elements may be null; negative counts mean 0.
#include <algorithm>

#include "common/capi.h"
#include "core/tables/drafter.h"

using edgedec::draft::Answers;
using Table = edgedec::draft::Drafter;

namespace {

size_t size(int64_t number) { return static_cast<size_t>(std::max<int64_t>(number, 0)); }

}  // namespace

// A handle, or null when there is not enough memory.
EDGEDEC_EXPORT Table* edgedec_draft_lookup(int64_t capacity) { return edgedec::draft::make_lookup(capacity); }
EDGEDEC_EXPORT Table* edgedec_draft_recycling(int64_t memory) { return edgedec::draft::make_recycling(memory); }
EDGEDEC_EXPORT void edgedec_draft_destroy(Table* drafter) { delete drafter; }

EDGEDEC_EXPORT int edgedec_draft_most_nodes() { return edgedec::draft::kMostNodes; }

EDGEDEC_EXPORT void edgedec_draft_begin(Table* drafter, const int32_t* tokens, int64_t count, int64_t kept) {
  drafter->begin(tokens, size(count), size(kept));
}

EDGEDEC_EXPORT void edgedec_draft_commit(Table* drafter, const int32_t* tokens, int64_t count) {
  drafter->commit(tokens, size(count));
}

// tokens[nodes], parents[nodes]; ids and logits [rows, columns]; logsumexp[rows].
EDGEDEC_EXPORT void edgedec_draft_learn(Table* drafter, int64_t nodes, const int32_t* tokens, const int32_t* parents,
                                        int64_t rows, int64_t columns, const int32_t* ids, const float* logits,
                                        const float* logsumexp, double temperature) {
  const Answers answers = {size(rows), size(columns), ids, logits, logsumexp, temperature};
  drafter->learn(size(nodes), tokens, parents, answers);
}

// Returns how many nodes it wrote; the arrays need room for edgedec_draft_most_nodes().
EDGEDEC_EXPORT int edgedec_draft_propose(const Table* drafter, int64_t limit, double floor, int32_t* tokens,
                                         int32_t* parents, double* probs) {
  return drafter->propose(limit, floor, {tokens, parents, probs});
}

EDGEDEC_EXPORT size_t edgedec_draft_nbytes(const Table* drafter) { return drafter->nbytes(); }
EDGEDEC_EXPORT size_t edgedec_draft_saved_size(const Table* drafter) { return drafter->saved_size(); }
EDGEDEC_EXPORT void edgedec_draft_save(const Table* drafter, uint8_t* out) { drafter->save(out); }

// 0 on success; 1: wrong size, 2: a token outside the vocabulary, 3: a probability above 1.
EDGEDEC_EXPORT int edgedec_draft_restore(Table* drafter, const uint8_t* data, size_t size, int64_t vocab) {
  return static_cast<int>(drafter->restore(data, size, vocab));
}
