// Functions that tests of verify/ call.
#include <algorithm>

#include "common/capi.h"
#include "core/verify/keyed.h"

using namespace edgedec::engine;

// Walks a draft. sizes: nodes, stop ids, the most tokens. targets: the target's token after the root and after each node.
// accepted: how many tokens were accepted when it was asked, for the same nodes (-1: it was not). Then cuts the verdict.
// out: path and tokens; counts: their lengths before the cut and behind it.
EDGEDEC_EXPORT int edgedec_probe_keyed(const int64_t* sizes, const int32_t* tokens, const int32_t* parents,
                                       const int32_t* targets, const int32_t* stop_ids, int32_t* accepted, int32_t* path,
                                       int32_t* found, int64_t* counts) {
  DraftTree tree;
  for (int64_t node = 0; node < sizes[0]; ++node) tree.add(tokens[node], parents[node], 1.0, 0);
  std::fill(accepted, accepted + sizes[0] + 1, -1);
  Verdict verdict;
  const Status status = keyed(
      tree,
      [&](int node, Span<const int32_t> so_far, int32_t* token) {
        accepted[node + 1] = static_cast<int32_t>(so_far.size());
        *token = targets[node + 1];
        return *token < 0 ? Status(Code::kBackend, "it has no token") : Status();
      },
      &verdict);
  std::copy(verdict.path.begin(), verdict.path.end(), path);
  std::copy(verdict.tokens.begin(), verdict.tokens.end(), found);
  counts[0] = static_cast<int64_t>(verdict.path.size());
  counts[1] = static_cast<int64_t>(verdict.tokens.size());
  verdict.until({stop_ids, static_cast<size_t>(sizes[1])}, static_cast<size_t>(sizes[2]));
  counts[2] = static_cast<int64_t>(verdict.path.size());
  counts[3] = static_cast<int64_t>(verdict.tokens.size());
  return static_cast<int>(status.code());
}
