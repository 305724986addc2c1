#include "tree_attention/sequences.h"

#include <algorithm>

namespace edgedec::tree_attention {
namespace {

constexpr int64_t kMostParts = 1 << 16;

const char* add(const Config& config, const int64_t* numbers, const int64_t* parents, size_t tokens, size_t capacity,
                Sequences* read) {
  const int64_t count = numbers[0], part = numbers[1], length = numbers[2];
  const size_t first = read->all.empty() ? 0 : read->all.back().first + read->all.back().pass.tokens;
  if (count < 1 || static_cast<uint64_t>(count) > tokens - first)
    return "the sequences must have one token or more each, as many as the pass in all";
  if (part < 0 || static_cast<uint64_t>(part) >= read->parts) return "a sequence is in a part that does not exist";
  if (std::any_of(read->all.begin(), read->all.end(),
                  [&](const Sequence& other) { return other.part == static_cast<size_t>(part); }))
    return "two sequences are in one part";
  if (length < 0) return "negative length";
  const Pass pass{parents + first, static_cast<size_t>(count), static_cast<size_t>(length)};
  read->all.push_back({first, static_cast<size_t>(part), pass});
  return problem(config, pass, capacity / read->parts);
}

}  // namespace

const char* read_sequences(const Config& config, const int64_t* numbers, size_t count, const int64_t* parents,
                           size_t tokens, size_t capacity, Sequences* read) {
  if (count % 3 != 1) return "length must have one number, or one and three for each sequence";
  if (count == 1) {
    if (numbers[0] < 0) return "negative length";
    read->all.push_back({0, 0, {parents, tokens, static_cast<size_t>(numbers[0])}});
    return problem(config, read->all.back().pass, capacity);
  }
  if (numbers[0] < 1 || numbers[0] > kMostParts || capacity % static_cast<size_t>(numbers[0]))
    return "parts must share the cache evenly";
  read->parts = static_cast<size_t>(numbers[0]);
  if (count / 3 > read->parts) return "more sequences than parts";
  for (size_t at = 1; at < count; at += 3)
    if (const char* wrong = add(config, numbers + at, parents, tokens, capacity, read)) return wrong;
  const Sequence& last = read->all.back();
  return last.first + last.pass.tokens == tokens
             ? nullptr
             : "the sequences must have one token or more each, as many as the pass in all";
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
