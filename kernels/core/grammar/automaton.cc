#include "core/grammar/automaton.h"

#include <algorithm>

namespace edgedec::engine {

void ByteAutomaton::clear() {
  states_.assign(1, {});
  next_.assign(kBytes, kUnknown);
  all_.clear();
  index_.clear();
}

StateId ByteAutomaton::make(StateId from, uint8_t byte) {
  found_.clear();
  if (from == start()) {
    places_.begin(byte, &found_);
  } else {
    const State state = states_[static_cast<size_t>(from)];
    for (size_t at = 0; at < state.count; ++at) places_.step(all_[state.begin + at], byte, &found_);
  }
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  const bool too_many = found_.size() > kMostPlaces || states_.size() >= kMostMade || all_.size() > kMostAllMade;
  too_complex_ |= too_many;
  const StateId to = found_.empty() || too_many ? kDeadState : intern(&found_);
  next_[static_cast<size_t>(from) * kBytes + byte] = to;
  return to;
}

StateId ByteAutomaton::intern(std::vector<Place>* places) {
  uint64_t hash = 0;
  for (const Place& place : *places) {
    hash = mixed(hash, uint64_t{place.rule} << 32 | place.stack);
    hash = mixed(hash, uint64_t{place.phase} << 56 ^ static_cast<uint64_t>(place.at));
  }
  const uint32_t known = index_.find(hash, [&](uint32_t number) {
    const State& state = states_[number];
    const auto held = all_.begin() + static_cast<long>(state.begin);
    return state.count == places->size() && std::equal(places->begin(), places->end(), held);
  });
  if (known != HashIndex::kNone) return static_cast<StateId>(known);
  State state;
  state.begin = all_.size();
  state.count = places->size();
  state.accepts = places->back().rule == kNoRule;  // the last in their order
  all_.insert(all_.end(), places->begin(), places->end());
  states_.push_back(state);
  next_.insert(next_.end(), kBytes, kUnknown);
  const auto number = static_cast<uint32_t>(states_.size() - 1);
  index_.add(hash, number);
  return static_cast<StateId>(number);
}

void ByteAutomaton::keep(std::vector<StateId>* kept) {
  std::vector<Place> held;
  std::vector<size_t> ends;
  for (StateId at : *kept) {
    const State& state = states_[static_cast<size_t>(at)];
    const auto begin = all_.begin() + static_cast<long>(state.begin);
    held.insert(held.end(), begin, begin + static_cast<long>(state.count));
    ends.push_back(held.size());
  }
  places_.keep(&held);
  clear();
  size_t begin = 0;
  for (size_t at = 0; at < kept->size(); ++at) {
    std::vector<Place> places(held.begin() + static_cast<long>(begin), held.begin() + static_cast<long>(ends[at]));
    std::sort(places.begin(), places.end());  // their stacks have other numbers
    if (!places.empty()) (*kept)[at] = intern(&places);
    begin = ends[at];
  }
}

}  // namespace edgedec::engine
