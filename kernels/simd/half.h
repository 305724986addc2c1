// Converts fp16 and bf16 to fp32 in integer code: exact, and the same on every CPU. Vector rows use the CPU's
// instructions instead.
#pragma once

#include <cstdint>
#include <cstring>

namespace edgedec {

static inline float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  uint32_t exponent = h >> 10 & 31, fraction = h & 1023, bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000u | fraction << 13;
  } else if (exponent) {
    bits = sign | (exponent + 112) << 23 | fraction << 13;
  } else {  // zero or subnormal: fraction * 2^-24 is exact in fp32
    float value = static_cast<float>(fraction) * 5.9604644775390625e-08f;
    std::memcpy(&bits, &value, 4);
    bits |= sign;
  }
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// The i-th of consecutive fp16 numbers, little endian.
static inline float half_at(const uint8_t* p, int i) {
  return half_to_float(static_cast<uint16_t>(p[2 * i] | p[2 * i + 1] << 8));
}

// bf16 is the upper half of an fp32 number.
static inline float bfloat_to_float(uint16_t b) {
  const uint32_t bits = static_cast<uint32_t>(b) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// The i-th of consecutive bf16 numbers, little endian.
static inline float bfloat_at(const uint8_t* p, int i) {
  return bfloat_to_float(static_cast<uint16_t>(p[2 * i] | p[2 * i + 1] << 8));
}

}  // namespace edgedec
