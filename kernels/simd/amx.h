// AMX int8 tiles: the compiler's intrinsics, or a plain C++ model of them in the emulated test library.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd/inline.h"

namespace edgedec {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t column_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64, "the hardware reads 64 bytes");

#ifdef EDGEDEC_EMULATE_AVX512

struct Tile {
  int rows = 0, bytes = 0;
  uint8_t data[16][64] = {};
};
struct Tiles {
  Tile tile[8];
};
EDGEDEC_INLINE Tiles& tiles_state() {
  static thread_local Tiles state;
  return state;
}

EDGEDEC_INLINE void tile_configure(const TileConfig& c) {
  for (int i = 0; i < 8; ++i) tiles_state().tile[i] = Tile{c.rows[i], c.column_bytes[i], {}};
}
EDGEDEC_INLINE void tile_release() { tiles_state() = Tiles{}; }

EDGEDEC_INLINE void emulate_load(int tile, const void* p, size_t stride) {
  Tile& t = tiles_state().tile[tile];
  for (int r = 0; r < t.rows; ++r) std::memcpy(t.data[r], static_cast<const uint8_t*>(p) + r * stride, t.bytes);
}
EDGEDEC_INLINE void emulate_store(int tile, void* p, size_t stride) {
  const Tile& t = tiles_state().tile[tile];
  for (int r = 0; r < t.rows; ++r) std::memcpy(static_cast<uint8_t*>(p) + r * stride, t.data[r], t.bytes);
}
EDGEDEC_INLINE void emulate_zero(int tile) { std::memset(tiles_state().tile[tile].data, 0, sizeof(Tile::data)); }

// C[m][n] += sum over k and four bytes of signed A[m][4k + i] * signed B[k][4n + i].
EDGEDEC_INLINE void emulate_dot(int into, int left, int right) {
  Tile &c = tiles_state().tile[into], &a = tiles_state().tile[left], &b = tiles_state().tile[right];
  for (int m = 0; m < c.rows; ++m)
    for (int n = 0; n < c.bytes / 4; ++n) {
      int32_t total;
      std::memcpy(&total, &c.data[m][4 * n], 4);
      for (int k = 0; k < a.bytes / 4; ++k)
        for (int i = 0; i < 4; ++i) total += static_cast<int8_t>(a.data[m][4 * k + i]) * static_cast<int8_t>(b.data[k][4 * n + i]);
      std::memcpy(&c.data[m][4 * n], &total, 4);
    }
}

#define EDGEDEC_TILE_LOAD(tile, p, stride) emulate_load(tile, p, stride)
#define EDGEDEC_TILE_STORE(tile, p, stride) emulate_store(tile, p, stride)
#define EDGEDEC_TILE_ZERO(tile) emulate_zero(tile)
#define EDGEDEC_TILE_DOT(c, a, b) emulate_dot(c, a, b)

#else

}  // namespace
}  // namespace edgedec
#include <immintrin.h>
namespace edgedec {
namespace {

EDGEDEC_INLINE void tile_configure(const TileConfig& c) {
  // GCC 12 assumes that the instruction reads 8 bytes and drops the stores to the other 56.
  asm volatile("" ::: "memory");
  _tile_loadconfig(&c);
}
EDGEDEC_INLINE void tile_release() { _tile_release(); }

// GCC 12 pastes the tile number into the instruction, so it must be a literal after preprocessing. GCC 12 does not know
// that a load reads memory, hence the barrier.
#define EDGEDEC_TILE_LOAD(tile, p, stride) \
  do {                                     \
    asm volatile("" ::: "memory");         \
    _tile_loadd(tile, p, stride);          \
  } while (0)
#define EDGEDEC_TILE_STORE(tile, p, stride) \
  do {                                      \
    _tile_stored(tile, p, stride);          \
    asm volatile("" ::: "memory");          \
  } while (0)
#define EDGEDEC_TILE_ZERO(tile) _tile_zero(tile)
#define EDGEDEC_TILE_DOT(c, a, b) _tile_dpbssd(c, a, b)

#endif

}  // namespace
}  // namespace edgedec
