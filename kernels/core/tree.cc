#include "core/tree.h"

#include <algorithm>

namespace edgedec::engine {

void DraftTree::clear() {
  tokens.clear();
  parents.clear();
  probs.clear();
  sources.clear();
}

void DraftTree::add(int32_t token, int parent, double prob, Source source) {
  tokens.push_back(token);
  parents.push_back(parent);
  probs.push_back(prob);
  sources.push_back(source);
}

void DraftTree::shorten(size_t count) {
  if (count >= size()) return;
  tokens.resize(count);
  parents.resize(count);
  probs.resize(count);
  sources.resize(count);
}

void DraftTree::keep(Span<const int> nodes) {
  if (nodes.size() == size()) return;
  std::vector<int> place(size(), kNone);
  for (size_t at = 0; at < nodes.size(); ++at) {
    const auto from = static_cast<size_t>(nodes[at]);
    place[from] = static_cast<int>(at);
    tokens[at] = tokens[from];
    parents[at] = parents[from] == kRoot ? kRoot : place[static_cast<size_t>(parents[from])];
    probs[at] = probs[from];
    sources[at] = sources[from];
  }
  shorten(nodes.size());
}

int DraftTree::depth_of(int node) const {
  int depth = 0;
  for (; node != kRoot; node = parents[static_cast<size_t>(node)]) ++depth;
  return depth;
}

int DraftTree::depth() const {
  int most = 0;
  for (size_t node = 0; node < size(); ++node) most = std::max(most, depth_of(static_cast<int>(node)));
  return most;
}

int DraftTree::child(int node, int32_t token) const {
  for (size_t at = 0; at < size(); ++at) {
    if (parents[at] == node && tokens[at] == token) return static_cast<int>(at);
  }
  return kNone;
}

void DraftTree::lead(Span<const int32_t> leading) {
  std::vector<int> order, place(size(), kNone);
  const auto append = [&](int node) {
    place[static_cast<size_t>(node)] = static_cast<int>(order.size());
    order.push_back(node);
  };
  for (const int32_t token : leading) {
    const int node = child(order.empty() ? kRoot : order.back(), token);
    if (node == kNone) break;
    append(node);
  }
  for (size_t node = 0; node < size(); ++node) {
    if (place[node] == kNone) append(static_cast<int>(node));
  }
  DraftTree led;
  for (const int node : order) {
    const auto at = static_cast<size_t>(node);
    const int parent = parents[at];
    led.add(tokens[at], parent == kRoot ? kRoot : place[static_cast<size_t>(parent)], probs[at], sources[at]);
  }
  *this = std::move(led);
}

}  // namespace edgedec::engine
