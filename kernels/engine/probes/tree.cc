// Functions that tests of core/tree.h call.
#include <algorithm>

#include "common/capi.h"
#include "core/tree.h"

using namespace edgedec::engine;

namespace {

DraftTree tree_of(const int32_t* tokens, const int32_t* parents, size_t count) {
  DraftTree tree;
  for (size_t node = 0; node < count; ++node) tree.add(tokens[node], parents[node], 1.0, static_cast<Source>(node));
  return tree;
}

}  // namespace

// Puts the nodes first that spell `leading`; the nodes that were there before go to `order`.
EDGEDEC_EXPORT void edgedec_probe_tree_lead(int32_t* tokens, int32_t* parents, size_t count, const int32_t* leading,
                                            size_t length, int32_t* order) {
  DraftTree tree = tree_of(tokens, parents, count);
  tree.lead({leading, length});
  std::copy(tree.tokens.begin(), tree.tokens.end(), tokens);
  std::copy(tree.parents.begin(), tree.parents.end(), parents);
  std::copy(tree.sources.begin(), tree.sources.end(), order);
}

// Writes the path to `node`, and returns its length; `deepest` is the depth of the tree.
EDGEDEC_EXPORT int edgedec_probe_tree_path(const int32_t* tokens, const int32_t* parents, size_t count, int node,
                                           int32_t* path, int* deepest) {
  const DraftTree tree = tree_of(tokens, parents, count);
  const std::vector<int> found = tree.path(node);
  std::copy(found.begin(), found.end(), path);
  *deepest = tree.depth();
  return static_cast<int>(found.size());
}
