// Rules as an automaton over bytes, made as far as it is walked.
#pragma once

#include <cstdint>
#include <vector>

#include "core/grammar/hash_index.h"
#include "core/grammar/places.h"
#include "core/grammar/rules.h"

namespace edgedec::engine {

using StateId = int32_t;
constexpr StateId kDeadState = -1;

// A state is all places that a text may have reached. Not for several threads at once.
class ByteAutomaton {
 public:
  // Places of one state. A schema whose alternatives nest in each other in too many ways has more.
  static constexpr size_t kMostPlaces = 2048;
  // States that are kept; beyond them those that nobody stands in are forgotten.
  static constexpr size_t kMostStates = 2048;
  // States that are made between two chances to forget them. A pattern that tells too many texts apart needs more.
  static constexpr size_t kMostMade = 8192;

  explicit ByteAutomaton(Rules rules) : rules_(std::move(rules)), places_(rules_) { clear(); }

  // The state before the text.
  StateId start() const { return 0; }
  // The state behind `byte`; kDeadState: it may not come next.
  StateId next(StateId from, uint8_t byte) {
    const StateId known = next_[static_cast<size_t>(from) * kBytes + byte];
    return known == kUnknown ? make(from, byte) : known;
  }
  // Whether the text may end here, and whether it has to.
  bool accepts(StateId at) const { return states_[static_cast<size_t>(at)].accepts; }
  bool finished(StateId at) const { return accepts(at) && states_[static_cast<size_t>(at)].count == 1; }
  // Whether there were too many places or states; what leads there counts as not possible.
  bool too_complex() const { return too_complex_; }

  bool full() const { return states_.size() > kMostStates || all_.size() > kMostAll || places_.frames() > kMostAll; }
  // Forgets all states but `kept`, which are numbered anew, and the first one.
  void keep(std::vector<StateId>* kept);

 private:
  static constexpr size_t kBytes = 256, kMostAll = 1 << 17, kMostAllMade = 1 << 18;
  static constexpr StateId kUnknown = -2;

  struct State {
    size_t begin = 0, count = 0;  // its places
    bool accepts = false;
  };

  void clear();
  StateId make(StateId from, uint8_t byte);
  StateId intern(std::vector<Place>* places);

  const Rules rules_;
  Places places_;
  std::vector<State> states_;
  std::vector<Place> all_;  // places of all states, one after the other
  std::vector<StateId> next_;
  HashIndex index_;
  std::vector<Place> found_;
  bool too_complex_ = false;
};

}  // namespace edgedec::engine
