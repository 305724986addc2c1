#include "tree_attention/sequences.h"

#include "common/sequences.h"

namespace edgedec::tree_attention {

const char* read_sequences(const Config& config, const int64_t* numbers, size_t count, const int64_t* parents,
                           size_t tokens, size_t capacity, Sequences* read) {
  SequenceList list;
  if (const char* wrong = read_sequence_list(numbers, count, tokens, &list)) return wrong;
  if (capacity % list.parts) return "parts must share the cache evenly";
  read->parts = list.parts;
  for (const SequenceAt& one : list.all) {
    const size_t slots = capacity / list.parts;
    const bool lent = one.lent && one.lender != one.part && !config.ring;
    Pass pass{parents + one.first, one.tokens, one.length};
    pass.base = one.part * slots, pass.lent_base = one.lender * slots, pass.lent = lent ? one.lent : 0;
    if (lent && one.lent > slots) return "more slots are lent than a part has";
    read->all.push_back({one.first, one.part, lent ? one.lender : one.part, pass});
    if (const char* wrong = problem(config, pass, capacity / list.parts)) return wrong;
  }
  return nullptr;
}

Cache part_of(const Cache& cache, size_t capacity, size_t parts, size_t part) {
  Cache found = cache;
  found.capacity = capacity / parts;
  const size_t before = part * found.capacity * cache.row;
  found.keys += before;
  found.values += before;
  return found;
}

}  // namespace edgedec::tree_attention
