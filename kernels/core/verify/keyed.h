// Verification by equality. The token at a position is a function of logits, seed and position (sampling/noise.h): it is
// known which one plain decoding would commit, and a drafted one is it or is not. So replies are the same tokens with and
// without speculation, at every temperature. Drafts may come from anywhere; no probabilities are needed.
#pragma once

#include "core/base/status.h"
#include "core/tree.h"
#include "core/verify/verdict.h"

namespace edgedec::engine {

constexpr int32_t kNoToken = INT32_MIN;

// Follows the target's own tokens down the tree as far as they were drafted.
//
// `choose(node, accepted, &token)` returns a Status and the target's token after a node (kRoot: the last committed
// token), given the tokens accepted so far; kNoToken: nothing may follow. It is asked for the root and for each accepted
// node, never for any other.
template <class Choose>
Status keyed(const DraftTree& tree, Choose&& choose, Verdict* verdict) {
  verdict->clear();
  for (int node = kRoot;;) {
    int32_t token = 0;
    EDGEDEC_TRY(choose(node, Span<const int32_t>(verdict->tokens), &token));
    if (token == kNoToken) return {};
    verdict->tokens.push_back(token);
    node = tree.child(node, token);
    if (node < 0) return {};
    verdict->path.push_back(node);
  }
}

}  // namespace edgedec::engine
