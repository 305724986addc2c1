// smmla multiplies eight bytes of two rows with eight bytes of two others: queries with keys, and weights with columns. It
// does twice what sdot does. Keys are turned for it with half the zips, so it takes single queries, too, which are paired with
// themselves. Columns take half as many zips more, which pay from four rows of weights on.
#include "byte_products/neon_sdot.h"

namespace edgedec::byte_products::neon_i8mm {
namespace {

constexpr int kPairs = 8;       // of sixteen keys or columns
constexpr size_t kFewRows = 4;  // of weights

EDGEDEC_INLINE int8x16_t low64(int8x16_t a, int8x16_t b) { return vcombine_s8(vget_low_s8(a), vget_low_s8(b)); }
EDGEDEC_INLINE int8x16_t high64(int8x16_t a, int8x16_t b) { return vcombine_s8(vget_high_s8(a), vget_high_s8(b)); }

// Squares of two pairs: lanes (first, 0), (first, 1), (second, 0), (second, 1), of which a row is stored or added.
EDGEDEC_INLINE int32x4_t first_of(int32x4_t a, int32x4_t b) { return vcombine_s32(vget_low_s32(a), vget_low_s32(b)); }
EDGEDEC_INLINE int32x4_t second_of(int32x4_t a, int32x4_t b) { return vcombine_s32(vget_high_s32(a), vget_high_s32(b)); }

// Sums of T pairs of queries, the first `count` of them wanted, and sixteen keys. EIGHTS: runs of eight elements.
template <int EIGHTS, int T>
EDGEDEC_INLINE void score_squares(const Vector* vectors, size_t count, const int8x16_t (*turned)[kPairs], int32_t* sums,
                                  size_t stride) {
  int8x16_t query[EIGHTS][T];
#pragma GCC unroll 2
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 2
    for (int e = 0; e < EIGHTS; e += 2) {
      const size_t at = 2 * static_cast<size_t>(t), with = at + 1 < count ? at + 1 : at;
      const int8x16_t a = vld1q_s8(vectors[at].bytes + 8 * e), b = vld1q_s8(vectors[with].bytes + 8 * e);
      query[e][t] = low64(a, b), query[e + 1][t] = high64(a, b);
    }
#pragma GCC unroll 2
  for (int pair = 0; pair < kPairs; pair += 4) {
    int32x4_t sum[T][4];
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[t][i] = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int e = 0; e < EIGHTS; ++e)
#pragma GCC unroll 2
      for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) sum[t][i] = vmmlaq_s32(sum[t][i], query[e][t], turned[e][pair + i]);
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) {
      const size_t at = 2 * static_cast<size_t>(t);
      int32_t* to = sums + at * stride + 2 * pair;
      vst1q_s32(to, first_of(sum[t][0], sum[t][1])), vst1q_s32(to + 4, first_of(sum[t][2], sum[t][3]));
      if (at + 1 == count) break;
      to += stride;
      vst1q_s32(to, second_of(sum[t][0], sum[t][1])), vst1q_s32(to + 4, second_of(sum[t][2], sum[t][3]));
    }
  }
}

template <int EIGHTS>
EDGEDEC_INLINE void score_tiles(const Vector* vectors, size_t count, const Rows& keys, int32_t* sums, size_t stride) {
  for (size_t j = 0; j < keys.count; j += 16) {
    const int8_t* rows[16];
    rows_of(keys, j, rows);
    int8x16_t turned[EIGHTS][kPairs];
    for (int e = 0; e < EIGHTS; e += 2)
      for (int pair = 0; pair < kPairs; ++pair) {
        const int8x16_t a = vld1q_s8(rows[2 * pair] + 8 * e), b = vld1q_s8(rows[2 * pair + 1] + 8 * e);
        turned[e][pair] = low64(a, b), turned[e + 1][pair] = high64(a, b);
      }
    size_t v = 0;
    for (; v + 2 < count; v += 4)
      score_squares<EIGHTS, 2>(vectors + v, count - v, turned, sums + v * stride + j, stride);
    if (v < count) score_squares<EIGHTS, 1>(vectors + v, count - v, turned, sums + v * stride + j, stride);
  }
}

void square_scores(const Vector* vectors, size_t count, const Rows& keys, size_t width, int32_t* sums, size_t stride) {
  width == kKeyWidth ? score_tiles<4>(vectors, count, keys, sums, stride) : score_tiles<2>(vectors, count, keys, sums, stride);
}

// Sixteen columns of eight values. mixed[i] has those of columns 2 i and 2 i + 1.
EDGEDEC_INLINE void mix_eight(const Rows& values, size_t j, size_t first, int8x16_t* mixed) {
  int8x16_t four[2][kParts];
  for (int i = 0; i < 2; ++i) mix_values<Sdot>(values, j + 4 * static_cast<size_t>(i), first, four[i]);
  for (int i = 0; i < kParts; ++i) {
    mixed[2 * i] = Sdot::low32(four[0][i], four[1][i]);
    mixed[2 * i + 1] = Sdot::high32(four[0][i], four[1][i]);
  }
}

// Eight weights of a row, or four and zeros.
EDGEDEC_INLINE int8x8_t eight_weights(const uint8_t* p, bool four) {
  int64_t all = 0;
  __builtin_memcpy(&all, p, four ? 4 : 8);
  return vreinterpret_s8_s64(vdup_n_s64(all));
}

// Adds the sums of two pairs of rows of weights, the first `count` rows of them wanted, and of sixteen mixed columns.
EDGEDEC_INLINE void value_squares(const uint8_t* weights, size_t count, const int8x16_t (*mixed)[kPairs], size_t groups,
                                  int32_t* sums) {
  const uint8_t* row[4];
  for (size_t v = 0; v < 4; ++v) row[v] = weights + (v < count ? v : count - 1) * kMostRows;
  int32x4_t sum[2][kPairs];
#pragma GCC unroll 2
  for (int t = 0; t < 2; ++t)
#pragma GCC unroll 8
    for (int i = 0; i < kPairs; ++i) sum[t][i] = vdupq_n_s32(0);
  for (size_t g = 0; g < groups; g += 2) {
    const bool four = g + 1 == groups;
#pragma GCC unroll 2
    for (int t = 0; t < 2; ++t) {
      const int8x16_t pair = vcombine_s8(eight_weights(row[2 * t] + 4 * g, four), eight_weights(row[2 * t + 1] + 4 * g, four));
#pragma GCC unroll 8
      for (int i = 0; i < kPairs; ++i) sum[t][i] = vmmlaq_s32(sum[t][i], pair, mixed[g / 2][i]);
    }
  }
#pragma GCC unroll 2
  for (size_t t = 0; t < 2; ++t)
#pragma GCC unroll 4
    for (size_t i = 0; i < kPairs; i += 2) {
      int32_t* to = sums + 2 * t * kMostWidth + 2 * i;
      if (2 * t < count) Sdot::add(to, first_of(sum[t][i], sum[t][i + 1]));
      if (2 * t + 1 < count) Sdot::add(to + kMostWidth, second_of(sum[t][i], sum[t][i + 1]));
    }
}

void square_values(const uint8_t* weights, size_t count, const Rows& rows, size_t width, int32_t* sums) {
  if (count < kFewRows) return values<Sdot>(weights, count, rows, width, sums);
  int8x16_t mixed[kMostRows / 8][kPairs];
  const size_t groups = (rows.count + 3) / 4;
  for (size_t first = 0; first < width; first += 16) {
    for (size_t g = 0; g < groups; g += 2) mix_eight(rows, 4 * g, first, mixed[g / 2]);
    for (size_t v = 0; v < count; v += 4)
      value_squares(weights + v * kMostRows, count - v < 4 ? count - v : 4, mixed, groups, sums + v * kMostWidth + first);
  }
}

}  // namespace

extern const Row row;
const Row row = {"neon_i8mm", square_scores, square_values};

}  // namespace edgedec::byte_products::neon_i8mm
