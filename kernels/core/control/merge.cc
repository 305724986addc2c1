#include "core/control/merge.h"

#include <algorithm>

namespace edgedec::engine {
namespace {

constexpr int kNoPlace = 0;  // the root, which is nobody's child
constexpr int kTop = 0;

}  // namespace

// The most probable path comes first; of equal ones that whose last token arrived first.
bool Merger::Entry::operator<(const Entry& other) const {
  return reach < other.reach || (reach == other.reach && place > other.place);
}

void Merger::merge(Span<const DraftTree> trees, int limit, const Acceptance* acceptance,
                   Span<const int32_t> stop_ids, DraftTree* tree) {
  places_.clear();
  places_.push_back({-1, 1.0, -1, kNoPlace, kNoPlace, kNoPlace});
  for (const DraftTree& each : trees) gather(each, acceptance);
  for (size_t at = 1; at < places_.size(); ++at) {
    Place& place = places_[at];
    if (std::find(stop_ids.begin(), stop_ids.end(), place.token) != stop_ids.end()) place.first_child = kNoPlace;
  }
  tree->clear();
  heap_.clear();
  offer(kTop, 1.0, kRoot);
  while (!heap_.empty() && static_cast<int>(tree->size()) < limit) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Entry best = heap_.back();
    heap_.pop_back();
    const Place& chosen = places_[static_cast<size_t>(best.place)];
    offer(best.place, best.reach, static_cast<int>(tree->size()));
    tree->add(chosen.token, best.parent, chosen.prob, chosen.source);
  }
}

// Adds the nodes of a tree to the places, or to the probabilities of those that are there.
void Merger::gather(const DraftTree& tree, const Acceptance* acceptance) {
  place_of_.clear();
  for (size_t node = 0; node < tree.size(); ++node) {
    const int parent = tree.parents[node];
    const int above = parent == kRoot ? kTop : place_of_[static_cast<size_t>(parent)];
    const Source source = tree.sources[node];
    const double prob = acceptance ? acceptance->calibrate(source, tree.probs[node]) : tree.probs[node];
    int at = find(above, tree.tokens[node]);
    if (at == kNoPlace) {
      at = append(above, tree.tokens[node], prob, source);
    } else if (Place& place = places_[static_cast<size_t>(at)]; prob > place.prob) {
      place.prob = prob;
      place.source = source;
    }
    place_of_.push_back(at);
  }
}

int Merger::find(int above, int32_t token) const {
  int at = places_[static_cast<size_t>(above)].first_child;
  while (at != kNoPlace && places_[static_cast<size_t>(at)].token != token) {
    at = places_[static_cast<size_t>(at)].next_sibling;
  }
  return at;
}

int Merger::append(int above, int32_t token, double prob, Source source) {
  const auto at = static_cast<int>(places_.size());
  places_.push_back({token, prob, source, kNoPlace, kNoPlace, kNoPlace});
  Place& parent = places_[static_cast<size_t>(above)];
  (parent.first_child == kNoPlace ? parent.first_child : places_[static_cast<size_t>(parent.last_child)].next_sibling) =
      at;
  parent.last_child = at;
  return at;
}

// Lets the children of a place be chosen, whose path has the probability `reach` and was put at `parent`.
void Merger::offer(int above, double reach, int parent) {
  int at = places_[static_cast<size_t>(above)].first_child;
  for (; at != kNoPlace; at = places_[static_cast<size_t>(at)].next_sibling) {
    const double prob = places_[static_cast<size_t>(at)].prob;
    if (!(prob > 0.0)) continue;
    heap_.push_back({reach * prob, at, parent});
    std::push_heap(heap_.begin(), heap_.end());
  }
}

}  // namespace edgedec::engine
