#include "core/draft/tree_builder.h"

#include <algorithm>
#include <numeric>

namespace edgedec::engine {

void TreeBuilder::clear() {
  tokens.clear();
  parents.clear();
  reach.clear();
}

int TreeBuilder::add(int32_t token, int parent, double more) {
  // Children come behind their parent, so the search begins there.
  size_t place = static_cast<size_t>(parent + 1);
  while (place < tokens.size() && (parents[place] != parent || tokens[place] != token)) ++place;
  if (place == tokens.size()) {
    tokens.push_back(token);
    parents.push_back(parent);
    reach.push_back(0.0);
  }
  reach[place] += more;
  return static_cast<int>(place);
}

void TreeBuilder::path(int node, std::vector<int>* nodes) const {
  nodes->clear();
  for (; node != kRoot; node = parents[static_cast<size_t>(node)]) nodes->push_back(node);
  std::reverse(nodes->begin(), nodes->end());
}

void TreeBuilder::spelled(int node, std::vector<int32_t>* found) const {
  found->clear();
  for (; node != kRoot; node = parents[static_cast<size_t>(node)]) found->push_back(tokens[static_cast<size_t>(node)]);
  std::reverse(found->begin(), found->end());
}

size_t TreeBuilder::at_least(double lead) const {
  return static_cast<size_t>(std::count_if(reach.begin(), reach.end(), [lead](double one) { return one >= lead; }));
}

std::vector<double> TreeBuilder::ends() const {
  std::vector<double> rest = reach;
  for (size_t node = 0; node < parents.size(); ++node)
    if (parents[node] != kRoot) rest[static_cast<size_t>(parents[node])] -= reach[node];
  return rest;
}

void TreeBuilder::best(int limit, double floor, Source source, DraftTree* tree) const {
  std::vector<int> order(size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [this](int a, int b) { return reach[a] > reach[b]; });
  if (order.size() > static_cast<size_t>(limit)) order.resize(static_cast<size_t>(limit));
  std::vector<int> place(size(), kNone);
  for (int node : order) {
    const int parent = parents[node] == kRoot ? kRoot : place[parents[node]];
    if (reach[node] < floor || parent == kNone) continue;
    place[node] = static_cast<int>(tree->size());
    tree->add(tokens[node], parent, std::min(prob(node), 1.0), source);
  }
}

double TreeBuilder::prob(int node) const {
  const int parent = parents[node];
  return reach[node] / (parent == kRoot ? 1.0 : reach[parent]);
}

}  // namespace edgedec::engine
