// The sequences of one pass: the only one, or several, each in a part of its own of every cache.
//
// The tokens of a sequence are contiguous in the pass, and its parents count from its first token: so each sequence is
// computed as if it were a pass of its own, and has the bits of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgedec {

struct SequenceAt {
  size_t first, tokens;      // its first token in the pass
  size_t part, length;       // length: resident tokens
  size_t lender, lent;       // the first `lent` slots lie in the part `lender`, which may be its own, and are only read
};

struct SequenceList {
  size_t parts = 1;
  std::vector<SequenceAt> all;
};

// Reads and checks `count` numbers: the resident tokens of the only sequence; or the number of parts, and then for each
// sequence its tokens, its part and its resident tokens; or the number of parts less than zero, and then also the part
// that lends it its first slots, and how many. Returns the error in one line, or nullptr.
const char* read_sequence_list(const int64_t* numbers, size_t count, size_t tokens, SequenceList* read);

// The error in the parents of `tokens` tokens, or nullptr.
inline const char* parents_problem(const int64_t* parents, size_t tokens) {
  for (size_t m = 0; m < tokens; ++m)
    if (parents[m] < -1 || parents[m] >= static_cast<int64_t>(m)) return "parents[i] must lie in [-1, i)";
  return nullptr;
}

}  // namespace edgedec
