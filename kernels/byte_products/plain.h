// Byte products without instructions for them.
#pragma once

#include "byte_products/byte_products.h"

namespace edgedec::byte_products {
namespace {

inline void plain_scores(const Vector* vectors, size_t count, const Rows& keys, size_t width, int32_t* sums, size_t stride) {
  for (size_t v = 0; v < count; ++v)
    for (size_t j = 0; j < keys.count; ++j) {
      int32_t sum = 0;
      for (size_t c = 0; c < width; ++c) sum += vectors[v].bytes[c] * keys.first[j * keys.stride + c];
      sums[v * stride + j] = sum;
    }
}

inline void plain_values(const uint8_t* weights, size_t count, const Rows& values, size_t width, int32_t* sums) {
  for (size_t v = 0; v < count; ++v)
    for (size_t j = 0; j < values.count; ++j)
      for (size_t c = 0; c < width; ++c)
        sums[v * kMostWidth + c] += weights[v * kMostRows + j] * values.first[j * values.stride + c];
}

}  // namespace
}  // namespace edgedec::byte_products
