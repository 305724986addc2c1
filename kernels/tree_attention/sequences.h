// The sequences of one pass: one that owns the whole cache, or several, each in a place of its own.
//
// A cache of C slots has `places` of equal size: place p owns slots [p C / places, (p + 1) C / places). The tokens of a
// sequence are contiguous in the pass, its parents count from its first token, and its slots from those of its place: so
// each sequence is computed as if it were a pass of its own, and has the bits of one.
#pragma once

#include <vector>

#include "tree_attention/tree_attention.h"

namespace edgedec::tree_attention {

struct Sequence {
  size_t first;  // its first token in the pass
  size_t place;
  Pass pass;
};

struct Sequences {
  size_t places = 1;
  std::vector<Sequence> all;
};

// From `count` numbers: resident tokens of the one sequence; or places, and then for each sequence its tokens, its
// place and its resident tokens. Checks everything. Returns what is wrong in one line, or nullptr.
const char* read_sequences(const Config& config, const int64_t* numbers, size_t count, const int64_t* parents,
                           size_t tokens, size_t capacity, Sequences* read);

// The part of a layer's cache that belongs to a place; slots count from its first one.
Cache part_of(const Cache& cache, size_t capacity, size_t places, size_t place);

}  // namespace edgedec::tree_attention
