#include "common/sequences.h"

#include <algorithm>

namespace edgedec {
namespace {

constexpr int64_t kMostParts = 1 << 16;
constexpr char kUneven[] = "the sequences must have one token or more each, as many as the pass in all";

const char* add(const int64_t* numbers, size_t tokens, bool lends, SequenceList* read) {
  const int64_t count = numbers[0], part = numbers[1], length = numbers[2];
  const int64_t lender = lends ? numbers[3] : part, lent = lends ? numbers[4] : 0;
  const size_t first = read->all.empty() ? 0 : read->all.back().first + read->all.back().tokens;
  if (count < 1 || static_cast<uint64_t>(count) > tokens - first) return kUneven;
  if (part < 0 || static_cast<uint64_t>(part) >= read->parts) return "a sequence is in a part that does not exist";
  if (std::any_of(read->all.begin(), read->all.end(),
                  [&](const SequenceAt& other) { return other.part == static_cast<size_t>(part); }))
    return "two sequences are in one part";
  if (length < 0) return "negative length";
  if (lender < 0 || static_cast<uint64_t>(lender) >= read->parts || lent < 0 || lent > length)
    return "slots must be lent by a part that exists, and be resident";
  read->all.push_back({first, static_cast<size_t>(count), static_cast<size_t>(part), static_cast<size_t>(length),
                       static_cast<size_t>(lender), static_cast<size_t>(lent)});
  return nullptr;
}

}  // namespace

const char* read_sequence_list(const int64_t* numbers, size_t count, size_t tokens, SequenceList* read) {
  const bool lends = count > 1 && numbers[0] < 0;
  const size_t each = lends ? 5 : 3;
  if (count % each != 1) return "length must have one number, or one and three, or five, for each sequence";
  if (count == 1) {
    if (numbers[0] < 0) return "negative length";
    read->all.push_back({0, tokens, 0, static_cast<size_t>(numbers[0]), 0, 0});
    return nullptr;
  }
  if (numbers[0] == 0 || numbers[0] > kMostParts || numbers[0] < -kMostParts) return "parts must share the cache evenly";
  read->parts = static_cast<size_t>(lends ? -numbers[0] : numbers[0]);
  if (count / each > read->parts) return "more sequences than parts";
  for (size_t at = 1; at < count; at += each)
    if (const char* wrong = add(numbers + at, tokens, lends, read)) return wrong;
  return read->all.back().first + read->all.back().tokens == tokens ? nullptr : kUneven;
}

}  // namespace edgedec
