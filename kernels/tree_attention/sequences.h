// The sequences of one pass over a cache: one that owns the whole cache, or several, each in a part of its own.
//
// A cache of C slots has `parts` of equal size: part p owns slots [p C / parts, (p + 1) C / parts), and the slots of a
// sequence count from those of its part. Its first pass.lent slots may lie in the part of another one, its lender; those
// of rings never do. Sequences that have the same slots so follow each other in a pass, and their keys are read once for
// several of them.
#pragma once

#include <vector>

#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {

struct Sequence {
  size_t first;  // its first token in the pass
  size_t part, lender;
  Pass pass;
};

struct Sequences {
  size_t parts = 1;
  std::vector<Sequence> all;
};

// Reads and checks the `count` numbers of common/sequences.h. Returns the error in one line, or nullptr.
const char* read_sequences(const Config& config, const int64_t* numbers, size_t count, const int64_t* parents,
                           size_t tokens, size_t capacity, Sequences* read);

// Whether two sequences begin with the same slots.
inline bool begin_alike(const Sequence& a, const Sequence& b) {
  return a.lender == b.lender && (a.pass.lent || a.part == a.lender) && (b.pass.lent || b.part == b.lender) &&
         (a.pass.lent || b.pass.lent);
}

// Part `part` of a layer's cache; its slots count from 0.
Cache part_of(const Cache& cache, size_t capacity, size_t parts, size_t part);

}  // namespace edgedec::tree_attention
