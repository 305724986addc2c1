// Drafters without a model: they propose tokens from tables, in microseconds. Drafts change the speed of decoding,
// never the tokens that come out.
//
// A drafter's memory is fixed when it is made; no call allocates or throws. Tokens may be any int32. Only one thread at
// a time may call a drafter.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgedec::draft {

constexpr int32_t kRoot = -1;    // the parent of a draft's first tokens: the last committed token
constexpr int kMostNodes = 64;   // of a draft: the longest pass

// A draft tree with room for kMostNodes, parents before children. probs[i]: the probability that the target continues
// parents[i] (an index, or kRoot) with tokens[i].
struct Tree {
  int32_t* tokens;
  int32_t* parents;
  double* probs;
};

// The target's predictions after the last committed token (row 0) and after the nodes of a tree (row 1 + i): its
// `columns` most likely tokens, best first, their logits, and log(sum of all exp(logit / temperature)).
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
  // Begins a new sequence of committed tokens; its first `kept` tokens are those of the sequence before.
  virtual void begin(const int32_t* tokens, size_t count, size_t kept) = 0;
  // Appends tokens to the committed sequence.
  virtual void commit(const int32_t* tokens, size_t count) = 0;
  // Learns from a pass over `nodes` drafted tokens, before any is committed. Ignores answers without 1 + nodes rows.
  virtual void learn(size_t nodes, const int32_t* tokens, const int32_t* parents, const Answers& answers) = 0;
  // Writes at most `limit` nodes whose paths are more probable than `floor`, the most probable first; returns how many.
  virtual int propose(int64_t limit, double floor, const Tree& tree) const = 0;
  // Bytes of the tables, which do not grow.
  virtual size_t nbytes() const = 0;
  // Writes the learned tables in this machine's byte order: saved_size() bytes.
  virtual size_t saved_size() const = 0;
  virtual void save(uint8_t* out) const = 0;
  // Reads the result of save(), of a larger table too, before the first begin(). On an error the drafter stays as it was.
  enum class Restored { kDone, kSize, kToken, kLevel };
  virtual Restored restore(const uint8_t* data, size_t size, int64_t vocab) = 0;
};

// Null when there is not enough memory.
Drafter* make_lookup(int64_t capacity);   // capacity: tokens to remember
Drafter* make_recycling(int64_t memory);  // memory: bytes of the table, at most

}  // namespace edgedec::draft
