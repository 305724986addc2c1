// Exact sums of products of bytes, for attention over int8 keys and values. A sum is an integer, so every row returns the
// same one, in whatever order it adds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgedec::byte_products {

constexpr size_t kMostVectors = 48;  // queries, or rows of weights, of a call
constexpr size_t kMostRows = 64;     // keys or values of a call
constexpr size_t kMostWidth = 64;    // elements of a value of a call
constexpr size_t kKeyWidth = 32;     // elements of a key of a call

// Rows of int8 numbers in -127 .. 127: `count` of them, each `stride` bytes after the one before.
struct Rows {
  const int8_t* first;
  size_t stride, count;
};

// A query, or a part of it: int8 numbers in -127 .. 127, and their sum.
struct Vector {
  const int8_t* bytes;
  int32_t sum;
};

// sums[v * stride + j] = <vectors[v][0 .. width - 1], keys[j][0 .. width - 1]>, with width 16 or kKeyWidth. Sums of keys that
// are not there, up to a multiple of sixteen, are overwritten with anything.
using ScoresFn = void (*)(const Vector* vectors, size_t count, const Rows& keys, size_t width, int32_t* sums, size_t stride);

// sums[v * kMostWidth + c] += sum over j of weights[v * kMostRows + j] values[j][c], with c < width, a multiple of 16 up to
// kMostWidth, and weights in 0 .. 127. Up to three weights past the last value's are read, and count for nothing.
using ValuesFn = void (*)(const uint8_t* weights, size_t count, const Rows& values, size_t width, int32_t* sums);

// A group of a query: kKeyWidth elements, what 1 of them stands for, and their sum.
struct Group {
  int8_t bytes[kKeyWidth];
  float scale;
  int32_t sum;
};

// Adds to scores[v][j], for each group g of a key ascending, one fused multiply-add of the sum with groups[v][g] and
// (scales[g * kMostRows + j] times its scale). Without `begun` scores begin at 0. width: up to kMostWidth elements; scales up to
// a multiple of sixteen are there.
using AddScoresFn = void (*)(const Group* const* groups, size_t count, const Rows& keys, size_t width, const float* scales,
                             bool begun, float* const* scores);

// Adds the sums that ValuesFn adds, times factors[v], to out[v][c]: one fused multiply-add each.
using AddValuesFn = void (*)(const uint8_t* weights, const float* factors, size_t count, const Rows& values, size_t width,
                             float* const* out);

struct Row {
  const char* name;
  ScoresFn scores;
  ValuesFn values;
  AddScoresFn add_scores = nullptr;  // null where sums in memory are as good
  AddValuesFn add_values = nullptr;
};

// The row of that name, those of quantised ops, or nullptr when this build has none. Check cpu_has() before running it.
const Row* find_row(const char* name);

}  // namespace edgedec::byte_products
