// Drafters without a model of their own: they guess which tokens come next from tables that cost microseconds to read.
// What they guess decides how long decoding takes and never what is said.
//
// Their memory is fixed when they are made, no call allocates or throws, and tokens may be any int32. One thread at a
// time may call one drafter.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgedec::draft {

constexpr int32_t kRoot = -1;    // the parent of first tokens: the last committed token
constexpr int kMostNodes = 64;   // of a draft; passes hold no more

// A tree of tokens, parents before children, with room for kMostNodes. probs[i]: that the target goes on from
// parents[i] (an index, or kRoot) with tokens[i].
struct Tree {
  int32_t* tokens;
  int32_t* parents;
  double* probs;
};

// The target's answers to the last committed token (row 0) and to the nodes of a tree (row 1 + i): its `columns` most
// likely tokens, best first, their logits, and the logarithm of the sum of all exp(logit / temperature).
struct Answers {
  size_t rows, columns;
  const int32_t* ids;
  const float* logits;
  const float* logsumexp;
  double temperature;
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // A new sequence of committed tokens; its first `kept` are the first of the one before.
  virtual void begin(const int32_t* tokens, size_t count, size_t kept) = 0;
  // These follow the committed sequence.
  virtual void commit(const int32_t* tokens, size_t count) = 0;
  // A pass over `nodes` drafted tokens, before any of it is committed. With another number of rows nothing is learned.
  virtual void learn(size_t nodes, const int32_t* tokens, const int32_t* parents, const Answers& answers) = 0;
  // Writes at most `limit` nodes with paths more probable than `floor`, the most probable first; how many.
  virtual int propose(int64_t limit, double floor, const Tree& tree) const = 0;
  // Bytes of tables, all of them had from the start.
  virtual size_t nbytes() const = 0;
  // What it knows, as bytes of this machine; save() writes saved_size() of them.
  virtual size_t saved_size() const = 0;
  virtual void save(uint8_t* out) const = 0;
  // Know what was saved; called before the first begin(). Otherwise stays as it was and says what was wrong.
  enum class Restored { kDone, kSize, kToken, kLevel };
  virtual Restored restore(const uint8_t* data, size_t size, int64_t vocab) = 0;
};

// Null when there is not that much memory.
Drafter* make_lookup(int64_t capacity);    // tokens remembered
Drafter* make_recycling(int64_t memory);  // bytes, at most, of answers

}  // namespace edgedec::draft
