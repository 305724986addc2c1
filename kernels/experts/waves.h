// Which experts a pass computes together, and when: in waves of ascending experts, and a wave in batches, those first that are there.
#pragma once

#include "experts/experts.h"

namespace edgedec::experts {

// Experts from `begin` to `end` that tokens chose, in the order in which they are computed. first_pair[i]: the first pair of a token
// and expert i; pairs lie by expert in that order, then by token.
struct Wave {
  const Chosen* chosen;        // of all tokens, [m][k]; `pair` of those in this wave
  int begin, end, count;
  const int* expert;           // [count]
  const int* first_pair;       // [count + 1]
  const int* token;            // [pairs]
  const uint8_t* const* data;  // [count]: weights, of those in batches so far
};

// Experts of a wave, by their numbers in it.
struct Batch {
  int begin, end;
};

class Waves {
 public:
  Waves(Parallel& threads, const Routing& routing, const Weights& weights, Chosen* chosen, int m, int pairs_at_once);
  ~Waves();
  Waves(const Waves&) = delete;
  Waves& operator=(const Waves&) = delete;
  explicit operator bool() const { return counts_ != nullptr; }

  // The next wave, null behind the last one and after an error. While it is computed, the store reads what the one after it needs.
  const Wave* next();

  // The next experts of the wave whose weights are there; waits for at least one. False behind the last ones and after an error.
  bool next_batch(Batch* batch);

  // What went wrong, as experts() returns it.
  int error() const { return error_; }

 private:
  struct Held {
    int begin = 0, end = 0, count = 0;
    int *expert = nullptr, *slot = nullptr;
  };

  Held plan(int begin, int half) const;
  bool hold(Held* held);
  void release(const Held& held);
  void number_pairs();
  const uint8_t* wait(int slot);

  Parallel& threads_;
  const Routing& routing_;
  const Weights& weights_;
  Chosen* chosen_;
  const int m_, most_pairs_, most_experts_;
  int* counts_;  // [E]: tokens of each expert
  int *numbers_, *first_pair_, *token_;
  const uint8_t** data_;
  Held now_, ahead_;
  Wave wave_{};
  int done_ = 0, error_ = 0, half_ = 0;
};

}  // namespace edgedec::experts
