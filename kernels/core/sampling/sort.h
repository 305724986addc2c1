// Sorting of long lists by a number, in a time that grows with their length alone.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace edgedec::engine {

// Numbers with ids, and room for as many more.
struct Sorting {
  std::vector<double>&values, &spare_values;
  std::vector<int32_t>&ids, &spare_ids;
};

inline uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// A key that ascends where numbers fall; both zeros have the same. What is no number has a key, too: with comparisons of
// such values a sort would have no order to end in.
inline uint64_t falling(double value) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  const uint64_t bits = bits_of(value == 0.0 ? 0.0 : value);
  return bits & kSign ? bits : ~bits & ~kSign;
}

// A key that ascends with numbers that are not below zero, and last where they are no numbers.
inline uint64_t rising(double value) { return bits_of(value); }

// Sorts by ascending key and leaves the order among equal keys as it is: digit by digit, the lowest first.
template <class Key>
void sort_by(Key key, const Sorting& list) {
  constexpr int kBits = 11, kDigits = 6;
  constexpr uint64_t kMask = (1 << kBits) - 1;
  const size_t size = list.values.size();
  if (size < 2) return;
  std::vector<uint32_t> counts(kDigits << kBits, 0);
  for (const double value : list.values) {
    const uint64_t bits = key(value);
    for (int digit = 0; digit < kDigits; ++digit)
      ++counts[static_cast<size_t>(digit) << kBits | (bits >> digit * kBits & kMask)];
  }
  list.spare_values.resize(size);
  list.spare_ids.resize(size);
  for (int digit = 0; digit < kDigits; ++digit) {
    uint32_t* starts = counts.data() + (static_cast<size_t>(digit) << kBits);
    const auto digit_of = [&](double value) { return key(value) >> digit * kBits & kMask; };
    if (starts[digit_of(list.values[0])] == size) continue;  // it is the same in all
    uint32_t sum = 0;
    for (uint64_t at = 0; at <= kMask; ++at) sum += std::exchange(starts[at], sum);
    for (size_t at = 0; at < size; ++at) {
      const uint32_t to = starts[digit_of(list.values[at])]++;
      list.spare_values[to] = list.values[at];
      list.spare_ids[to] = list.ids[at];
    }
    list.values.swap(list.spare_values);
    list.ids.swap(list.spare_ids);
  }
}

}  // namespace edgedec::engine
