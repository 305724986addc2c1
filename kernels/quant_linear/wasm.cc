// The row of WebAssembly: integer products of 16-bit halves, exact sums of pairs in 32 bits.
//
// A step holds four inputs of a column in four bytes. The even bytes of all columns, and the odd ones, become words of 16
// bits in place, and one instruction multiplies them with two activations and adds up each column's pair. Relaxed SIMD
// multiplies four bytes of a column at once, exactly where one factor is below 128: eighth bits are multiplied apart.
#include "simd/vec16_wasm.h"
#include "quant_linear/element.h"
#include "quant_linear/float_impl.h"
#include "quant_linear/tile_loop.h"

namespace edgedec::quant_linear::wasm {
namespace {

constexpr int kParts = 4;  // registers of sixteen columns

template <class F>
constexpr int kSums = kHalves<F> ? 2 : 1;

// Whether all quants are below 128.
template <class F>
constexpr bool kSeven = kMaxQuant<F> < 128;

template <class F>
EDGEDEC_INLINE v128_t lookup(v128_t index) {
  const v128_t offset = wasm_i8x16_splat(static_cast<int8_t>(F::kOffset));
  return wasm_i8x16_swizzle(wasm_i8x16_add(wasm_v128_load(F::kValues), offset), index);
}

// Quants of four columns of one step as unsigned bytes. ODD: the group's parity.
template <class F, int ODD>
EDGEDEC_INLINE v128_t unpack(const uint8_t* rec, int group, int s, int part) {
  if constexpr (F::kBits == 8) {
    return wasm_v128_load(rec + F::kLo + (group * kSteps + s) * 64 + part * 16);
  } else if constexpr (F::kBits < 4) {
    const v128_t crumbs = wasm_v128_load(rec + F::kLo + group * 128 + s / 4 * 64 + part * 16);
    const v128_t lo = wasm_v128_and(wasm_u8x16_shr(crumbs, 2 * (s % 4)), wasm_i8x16_const_splat(3));
    if constexpr (F::kBits == 2) return lo;
    const v128_t hi = wasm_v128_load(rec + F::kHi + group * 64 + part * 16);
    const v128_t bit = wasm_v128_and(wasm_u8x16_shr(hi, s), wasm_i8x16_const_splat(1));
    const v128_t bits = wasm_v128_or(lo, wasm_i8x16_shl(bit, 2));
    if constexpr (kLookup<F>) return lookup<F>(bits);
    return bits;
  } else {
    const v128_t bytes = wasm_v128_load(rec + F::kLo + group / 2 * 512 + s * 64 + part * 16);
    const v128_t lo = ODD ? wasm_u8x16_shr(bytes, 4) : wasm_v128_and(bytes, wasm_i8x16_const_splat(15));
    if constexpr (kLookup<F>) {
      return lookup<F>(lo);
    } else if constexpr (F::kBits == 4) {
      return lo;
    } else {
      constexpr int bits = F::kBits - 4, steps = 8 / bits;  // of the high part: per step, and steps in a byte
      const v128_t hi = wasm_v128_load(rec + F::kHi + group * 64 * bits + s / steps * 64 + part * 16);
      const v128_t two = wasm_v128_and(wasm_u8x16_shr(hi, bits * (s % steps)), wasm_i8x16_splat((1 << bits) - 1));
      return wasm_v128_or(lo, wasm_i8x16_shl(two, 4));
    }
  }
}

struct Columns {
  v128_t part[kParts];
};

EDGEDEC_INLINE Columns halves(const uint8_t* p) {
  const Vec16Wasm wide = Vec16Wasm::load_f16(reinterpret_cast<const uint16_t*>(p));
  return {{wide.v[0], wide.v[1], wide.v[2], wide.v[3]}};
}

// fp16 scales times the unit of a format, which is exact.
template <class F>
EDGEDEC_INLINE Columns units(const uint8_t* p) {
  Columns f = halves(p);
  for (auto& part : f.part) part = wasm_f32x4_mul(part, wasm_f32x4_const_splat(F::kUnit));
  return f;
}

// Floats of 8 bits without their sign.
template <class F>
EDGEDEC_INLINE Columns float8(const uint8_t* p) {
  const v128_t bytes = wasm_v128_load(p);
  v128_t bits[2];
  bits[0] = wasm_i16x8_shl(wasm_u16x8_extend_low_u8x16(bytes), 7);
  bits[1] = wasm_i16x8_shl(wasm_u16x8_extend_high_u8x16(bytes), 7);
  return units<F>(reinterpret_cast<const uint8_t*>(bits));
}

EDGEDEC_INLINE Columns widen(v128_t bytes) {  // signed
  const v128_t lo = wasm_i16x8_extend_low_i8x16(bytes), hi = wasm_i16x8_extend_high_i8x16(bytes);
  return {{wasm_i32x4_extend_low_i16x8(lo), wasm_i32x4_extend_high_i16x8(lo), wasm_i32x4_extend_low_i16x8(hi),
           wasm_i32x4_extend_high_i16x8(hi)}};
}

struct GroupScales {
  Columns scale, minus_min;
  Columns sc[2], mins[2];  // of the halves, where kSums is 2; sc are floats where the format's are
};

// The two 6-bit numbers of a group: scale and minimum, or the scales of both halves (Q3_K).
struct SixBits {
  v128_t first, second;
};
template <int ODD>
EDGEDEC_INLINE SixBits six_bits(const uint8_t* field, int group) {
  const uint8_t* pair = field + group / 2 * 48;
  const v128_t low = wasm_v128_load(pair + ODD * 16), both = wasm_v128_load(pair + 32), two = wasm_i8x16_const_splat(3);
  const v128_t high = ODD ? wasm_u8x16_shr(both, 4) : both;
  return {wasm_v128_or(wasm_v128_and(low, wasm_i8x16_const_splat(15)), wasm_i8x16_shl(wasm_v128_and(high, two), 4)),
          wasm_v128_or(wasm_u8x16_shr(low, 4), wasm_i8x16_shl(wasm_v128_and(wasm_u8x16_shr(high, 2), two), 4))};
}

template <class F, int ODD>
EDGEDEC_INLINE GroupScales group_scales(const uint8_t* rec, int group) {
  GroupScales s;
  if constexpr (F::kScales == Scales::kHalf) {
    s.scale = halves(rec + group * 32);
    if constexpr (F::kMin) s.minus_min = halves(rec + 64 + group * 32);
  } else if constexpr (F::kScales == Scales::kExponent) {
    float scale[kTile];
    for (int c = 0; c < kTile; ++c) scale[c] = exponent_scale(rec[group * kTile + c]);
    for (int i = 0; i < kParts; ++i) s.scale.part[i] = wasm_v128_load(scale + 4 * i);
  } else if constexpr (F::kScales == Scales::kSignedQ6) {
    s.scale = halves(rec);
    for (int half = 0; half < 2; ++half) s.sc[half] = widen(wasm_v128_load(rec + 32 + (2 * group + half) * kTile));
  } else if constexpr (F::kScales == Scales::kBiasedQ3) {
    const SixBits six = six_bits<ODD>(rec + 32, group);
    s.scale = halves(rec);
    s.sc[0] = widen(wasm_i8x16_sub(six.first, wasm_i8x16_const_splat(32)));
    s.sc[1] = widen(wasm_i8x16_sub(six.second, wasm_i8x16_const_splat(32)));
  } else if constexpr (F::kScales == Scales::kRecord) {
    s.scale = halves(rec);
  } else if constexpr (F::kScales == Scales::kSigned) {
    const Columns sc = widen(wasm_v128_load(rec + 32 + group * kTile));
    s.scale = units<F>(rec);
    for (int i = 0; i < kParts; ++i)
      s.scale.part[i] = wasm_f32x4_mul(s.scale.part[i], wasm_f32x4_convert_i32x4(sc.part[i]));
  } else if constexpr (F::kScales == Scales::kOdd) {
    const v128_t both = wasm_v128_load(rec + 32 + group * kTile), one = wasm_i8x16_const_splat(1);
    s.scale = units<F>(rec);
    s.sc[0] = widen(wasm_i8x16_add(wasm_i8x16_shl(wasm_v128_and(both, wasm_i8x16_const_splat(15)), 1), one));
    s.sc[1] = widen(wasm_i8x16_add(wasm_i8x16_shl(wasm_u8x16_shr(both, 4), 1), one));
  } else if constexpr (kFloatScales<F>) {
    for (int i = 0; i < kParts; ++i) s.scale.part[i] = wasm_v128_load(rec + 16 * i);
    for (int half = 0; half < 2; ++half) s.sc[half] = float8<F>(rec + 64 + (2 * group + half) * kTile);
  } else if constexpr (F::kScales == Scales::kNibbles) {
    s.scale = halves(rec);
    s.minus_min = halves(rec + 32);
    for (auto& part : s.minus_min.part) part = wasm_f32x4_neg(part);
    for (int half = 0; half < 2; ++half) {
      const v128_t both = wasm_v128_load(rec + 64 + (2 * group + half) * kTile);
      s.sc[half] = widen(wasm_v128_and(both, wasm_i8x16_const_splat(15)));
      s.mins[half] = widen(wasm_u8x16_shr(both, 4));
    }
  } else {
    const SixBits six = six_bits<ODD>(rec + 64, group);
    const Columns d = halves(rec), dmin = halves(rec + 32), sc = widen(six.first), m = widen(six.second);
    for (int i = 0; i < kParts; ++i) {
      s.scale.part[i] = wasm_f32x4_mul(d.part[i], wasm_f32x4_convert_i32x4(sc.part[i]));
      s.minus_min.part[i] = wasm_f32x4_neg(wasm_f32x4_mul(dmin.part[i], wasm_f32x4_convert_i32x4(m.part[i])));
    }
  }
  return s;
}

// Quants of four columns of one step, ready to be multiplied: the even and the odd ones as words of 16 bits. Relaxed SIMD takes
// them as bytes below 128, and eighth bits apart.
template <class F>
struct Ready {
#ifdef __wasm_relaxed_simd__
  static constexpr int kPieces = kSeven<F> ? 1 : 2;
#else
  static constexpr int kPieces = 2;
#endif
  v128_t piece[kPieces];

  explicit EDGEDEC_INLINE Ready(v128_t quants) {
#ifdef __wasm_relaxed_simd__
    piece[0] = quants;
    if constexpr (kPieces == 2) {
      piece[0] = wasm_v128_and(quants, wasm_i8x16_const_splat(127));
      piece[1] = wasm_u8x16_shr(quants, 7);
    }
#else
    piece[0] = wasm_v128_and(quants, wasm_i16x8_const_splat(0xff));
    piece[1] = wasm_u16x8_shr(quants, 8);
#endif
  }
  Ready() = default;
};

// The four activations of a step in all columns, as Ready has quants.
struct Inputs {
  v128_t piece[2];

  explicit EDGEDEC_INLINE Inputs(const int8_t* q) {
    const v128_t all = wasm_v128_load32_splat(q);
#ifdef __wasm_relaxed_simd__
    piece[0] = piece[1] = all;
#else
    piece[0] = wasm_i16x8_shr(wasm_i16x8_shl(all, 8), 8);
    piece[1] = wasm_i16x8_shr(all, 8);
#endif
  }
};

// An exact sum of products in four columns.
template <class F>
struct Sum {
  v128_t low, high;  // high: of eighth bits

  EDGEDEC_INLINE void begin(int32_t at) {
    low = wasm_i32x4_splat(at);
    if constexpr (!kSeven<F>) high = wasm_i32x4_const_splat(0);
  }
  EDGEDEC_INLINE void add(const Ready<F>& w, const Inputs& x) {
#ifdef __wasm_relaxed_simd__
    low = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(x.piece[0], w.piece[0], low);
    if constexpr (!kSeven<F>) high = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(x.piece[1], w.piece[1], high);
#else
    for (int i = 0; i < 2; ++i) low = wasm_i32x4_add(low, wasm_i32x4_dot_i16x8(w.piece[i], x.piece[i]));
#endif
  }
  EDGEDEC_INLINE v128_t total() const {
#ifdef __wasm_relaxed_simd__
    if constexpr (!kSeven<F>) return wasm_i32x4_add(low, wasm_i32x4_shl(high, 7));
#endif
    return low;
  }
};

// The activations of one group of one token.
struct Token {
  const int8_t* q;
  const int32_t* sum;
  float scale;

  EDGEDEC_INLINE Token(const Acts& x, int m, int index) {
    const size_t at = static_cast<size_t>(m) * (x.k / kGroup) + index;
    q = x.q + at * kGroup;
    sum = x.sum + 2 * at;
    scale = x.scale[at];
  }
};

// From the exact sums of a group, integers or (kFloatScales) floats, to the accumulator.
template <class F>
EDGEDEC_INLINE void settle(int part, v128_t sum, const GroupScales& s, const Token& t, v128_t* acc) {
  v128_t v = wasm_f32x4_mul(kFloatScales<F> ? sum : wasm_f32x4_convert_i32x4(sum), s.scale.part[part]);
  if constexpr (F::kMin) {
    v128_t sums = wasm_i32x4_splat(t.sum[0] + t.sum[1]);
    if constexpr (kSums<F> == 2)
      sums = wasm_i32x4_add(wasm_i32x4_mul(s.mins[0].part[part], wasm_i32x4_splat(t.sum[0])),
                            wasm_i32x4_mul(s.mins[1].part[part], wasm_i32x4_splat(t.sum[1])));
    v = Vec16Wasm::fma4(s.minus_min.part[part], wasm_f32x4_convert_i32x4(sums), v);
  }
  *acc = Vec16Wasm::fma4(v, wasm_f32x4_splat(t.scale), *acc);
}

// The class C of tile_loop.h. For several tokens quants are unpacked once.
struct WasmColumns {
  using Sums = Columns;
  static constexpr int kStreams = 1, kFew = 1, kRowsAtOnce = 32;
  static constexpr bool kUnpacks = false;

  static EDGEDEC_INLINE Sums zero() {
    const v128_t none = wasm_f32x4_const_splat(0.0f);
    return {{none, none, none, none}};
  }
  static EDGEDEC_INLINE void store(const Sums& acc, float* out, int columns) {
    Vec16Wasm{{acc.part[0], acc.part[1], acc.part[2], acc.part[3]}}.store_partial(out, static_cast<size_t>(columns < kTile ? columns : kTile));
  }

  // Adds a group for one token; w(step, part) gives the quants of a step in four columns. A step's activations are read once
  // for all columns.
  template <class F, class W>
  static EDGEDEC_INLINE void add(const W& w, const GroupScales& s, const Token& t, Sums* acc) {
    constexpr int steps = kSteps / kSums<F>;
    v128_t whole[kParts];
#pragma GCC unroll 2
    for (int half = 0; half < kSums<F>; ++half) {
      Sum<F> sum[kParts];
#pragma GCC unroll 4
      for (auto& part : sum) part.begin(-F::kOffset * (kSums<F> == 2 ? t.sum[half] : t.sum[0] + t.sum[1]));
#pragma GCC unroll 8
      for (int step = half * steps; step < (half + 1) * steps; ++step) {
        const Inputs x(t.q + 4 * step);
#pragma GCC unroll 4
        for (int part = 0; part < kParts; ++part) sum[part].add(w(step, part), x);
      }
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) {
        const v128_t total = sum[part].total();
        if constexpr (kFloatScales<F>) {
          const v128_t f = wasm_f32x4_convert_i32x4(total), scale = s.sc[half].part[part];
          whole[part] = half ? Vec16Wasm::fma4(f, scale, whole[part]) : wasm_f32x4_mul(f, scale);
        } else if constexpr (kSums<F> == 2) {
          const v128_t scaled = wasm_i32x4_mul(total, s.sc[half].part[part]);
          whole[part] = half ? wasm_i32x4_add(whole[part], scaled) : scaled;
        } else {
          whole[part] = total;
        }
      }
    }
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) settle<F>(part, whole[part], s, t, &acc->part[part]);
  }

  template <class F, int ODD, int N>
  static EDGEDEC_INLINE void group(const uint8_t* rec, int g, const Acts& x, int m0, int n, int index, Sums* acc) {
    const GroupScales s = group_scales<F, ODD>(rec, g);
    if constexpr (N == 1) {
      const auto unpacked = [=](int step, int part) { return Ready<F>(unpack<F, ODD>(rec, g, step, part)); };
      add<F>(unpacked, s, Token(x, m0, index), acc);
    } else {
      Ready<F> quants[kSteps][kParts];
#pragma GCC unroll 8
      for (int step = 0; step < kSteps; ++step)
#pragma GCC unroll 4
        for (int part = 0; part < kParts; ++part) quants[step][part] = Ready<F>(unpack<F, ODD>(rec, g, step, part));
      for (int m = 0; m < n; ++m)
        add<F>([&](int step, int part) { return quants[step][part]; }, s, Token(x, m0 + m, index), acc + m);
    }
  }
};

template <class F>
constexpr TilesFn tiles = tile_loop<F, WasmColumns>;

EDGEDEC_INLINE v128_t load_tail(const float* x, int left) {
  if (left >= 4) return wasm_v128_load(x);
  float value[4] = {};
  for (int i = 0; i < left; ++i) value[i] = x[i];
  return wasm_v128_load(value);
}

EDGEDEC_INLINE void quantise_group(const float* x, int left, int8_t* q, float* scale, int32_t* sum) {
  v128_t v[8], top = wasm_i32x4_const_splat(0);
  // Floats without signs, compared as integers: finite values in order, then infinity, then NaN, which a maximum of
  // floats would lose.
  for (int i = 0; i < 8; ++i) {
    v[i] = load_tail(x + 4 * i, left - 4 * i);
    top = wasm_u32x4_max(top, wasm_f32x4_abs(v[i]));
  }
  top = wasm_u32x4_max(top, wasm_i32x4_shuffle(top, top, 2, 3, 2, 3));
  top = wasm_u32x4_max(top, wasm_i32x4_shuffle(top, top, 1, 1, 1, 1));
  const float peak = wasm_f32x4_extract_lane(top, 0);
  const bool finite = peak < __builtin_inff();
  const v128_t inverse = wasm_f32x4_splat(peak >= kLeastPeak ? 127.0f / peak : 0.0f);
  *scale = finite ? peak / 127.0f : __builtin_nanf("");
  if (!finite)
    for (auto& part : v) part = wasm_f32x4_const_splat(0.0f);
  for (int half = 0; half < 2; ++half) {
    v128_t words[4];
    for (int i = 0; i < 4; ++i)
      words[i] = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(wasm_f32x4_mul(v[4 * half + i], inverse)));
    const v128_t low = wasm_i16x8_narrow_i32x4(words[0], words[1]), high = wasm_i16x8_narrow_i32x4(words[2], words[3]);
    wasm_v128_store(q + 16 * half, wasm_i8x16_narrow_i16x8(low, high));
    const v128_t all = wasm_i32x4_add(wasm_i32x4_add(words[0], words[1]), wasm_i32x4_add(words[2], words[3]));
    sum[half] = wasm_i32x4_extract_lane(all, 0) + wasm_i32x4_extract_lane(all, 1) + wasm_i32x4_extract_lane(all, 2) +
                wasm_i32x4_extract_lane(all, 3);
  }
}

void quantise(const float* x, int cols, int k, size_t first, size_t last, int8_t* q, float* scale, int32_t* sum) {
  for_groups(k, first, last, [&](size_t m, int g, size_t at) {
    quantise_group(x + m * cols + g * kGroup, cols - g * kGroup, q + at * kGroup, scale + at, sum + 2 * at);
  });
}

}  // namespace

extern const Row row;
const Row row = {"wasm",
                 quantise,
                 {
#define X(F) tiles<F>,
                     EDGEDEC_INT_FORMATS(X)
#undef X
#define X(F) float_tiles<F, Vec16Wasm>,
                     EDGEDEC_FLOAT_FORMATS(X)
#undef X
                 }};

}  // namespace edgedec::quant_linear::wasm
