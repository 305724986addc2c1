// Scratch memory that a thread keeps between calls, so that decoding does not allocate.
#pragma once

#include <cstddef>

namespace edgedec {

enum class Scratch {
  kActs, kActScales, kActSums, kActTotals, kRest, kTerms, kFine, kGate, kUp, kLogits, kKept, kQuery, kScores,
  kPaths, kTableTile, kParts, kPartBest, kFound, kBest,
  kWalks, kSteps, kZeros, kRecurrence, kProducts,
  kGated, kChosen, kPairs, kPlaces, kInner, kOuter, kTextKeys, kCount
};

// At least so many bytes of this thread, aligned to 64, or null where there is not enough memory.
void* scratch_bytes(Scratch slot, size_t bytes);

// Room for n elements; null where there is not enough memory. Contents are undefined. Two buffers in use at the same
// time on one thread need two names.
template <class T>
T* scratch(Scratch slot, size_t n) {
  if (n > (static_cast<size_t>(-1) - 64) / sizeof(T)) return nullptr;
  return static_cast<T*>(scratch_bytes(slot, n * sizeof(T) + 1));
}

}  // namespace edgedec
