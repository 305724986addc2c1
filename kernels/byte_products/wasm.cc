// Relaxed SIMD multiplies four bytes of a lane at once, exactly where one factor is in 0 .. 127, as weights are. Scores take
// |key|, and the query with the key's sign. Without it the even bytes and the odd ones become words of 16 bits in place, and one
// instruction multiplies these and adds up pairs.
#include "byte_products/quads_impl.h"
#include "simd/wasm128.h"

namespace edgedec::byte_products::wasm {
namespace {

#ifdef __wasm_relaxed_simd__

struct Products {
  struct Key {
    v128_t size, sign;
    explicit EDGEDEC_INLINE Key(v128_t bytes) : size(wasm_i8x16_abs(bytes)), sign(wasm_i8x16_shr(bytes, 7)) {}
    Key() = default;
  };
  struct Value {
    v128_t bytes;
    explicit EDGEDEC_INLINE Value(v128_t b) : bytes(b) {}
    Value() = default;
  };
  struct Four {
    v128_t bytes;
    explicit EDGEDEC_INLINE Four(const int8_t* p) : bytes(wasm_v128_load32_splat(p)) {}
  };

  static EDGEDEC_INLINE v128_t key(v128_t sum, const Key& key, const Four& query) {
    const v128_t with_sign = wasm_i8x16_sub(wasm_v128_xor(query.bytes, key.sign), key.sign);
    return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(with_sign, key.size, sum);
  }
  static EDGEDEC_INLINE v128_t value(v128_t sum, const Value& value, const Four& weights) {
    return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(value.bytes, weights.bytes, sum);
  }
};

#else

struct Products {
  struct Words {
    v128_t even, odd;
    explicit EDGEDEC_INLINE Words(v128_t bytes)
        : even(wasm_i16x8_shr(wasm_i16x8_shl(bytes, 8), 8)), odd(wasm_i16x8_shr(bytes, 8)) {}
    Words() = default;
  };
  using Key = Words;
  using Value = Words;
  struct Four : Words {
    explicit EDGEDEC_INLINE Four(const int8_t* p) : Words(wasm_v128_load32_splat(p)) {}
  };

  static EDGEDEC_INLINE v128_t key(v128_t sum, const Words& a, const Words& b) {
    return wasm_i32x4_add(sum, wasm_i32x4_add(wasm_i32x4_dot_i16x8(a.even, b.even), wasm_i32x4_dot_i16x8(a.odd, b.odd)));
  }
  static EDGEDEC_INLINE v128_t value(v128_t sum, const Words& a, const Words& b) { return key(sum, a, b); }
};

#endif

struct Wasm {
  using Bytes = v128_t;
  using Sum = v128_t;
  using Key = Products::Key;
  using Value = Products::Value;
  static constexpr int kSums = 8;  // processors have sixteen registers

  static EDGEDEC_INLINE v128_t load(const int8_t* p) { return wasm_v128_load(p); }
  static EDGEDEC_INLINE v128_t zero() { return wasm_i32x4_const_splat(0); }
  static EDGEDEC_INLINE v128_t low8(v128_t a, v128_t b) {
    return wasm_i8x16_shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  static EDGEDEC_INLINE v128_t high8(v128_t a, v128_t b) {
    return wasm_i8x16_shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
  static EDGEDEC_INLINE v128_t low16(v128_t a, v128_t b) { return wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
  static EDGEDEC_INLINE v128_t high16(v128_t a, v128_t b) { return wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
  static EDGEDEC_INLINE v128_t low32(v128_t a, v128_t b) { return wasm_i32x4_shuffle(a, b, 0, 4, 1, 5); }
  static EDGEDEC_INLINE v128_t high32(v128_t a, v128_t b) { return wasm_i32x4_shuffle(a, b, 2, 6, 3, 7); }

  static EDGEDEC_INLINE v128_t start() { return zero(); }
  static EDGEDEC_INLINE void store(int32_t* p, v128_t sum) { wasm_v128_store(p, sum); }
  static EDGEDEC_INLINE void add(int32_t* p, v128_t sum) { wasm_v128_store(p, wasm_i32x4_add(wasm_v128_load(p), sum)); }

  // No instruction takes a lane: four bytes come from memory in all lanes.
  struct Fours {
    const int8_t* p;
    explicit EDGEDEC_INLINE Fours(const int8_t* at) : p(at) {}
  };
  using One = Fours;
  static EDGEDEC_INLINE v128_t add_key(v128_t sum, const Key& key, const Fours& query, int i) {
    return Products::key(sum, key, Products::Four(query.p + 4 * i));
  }
  static EDGEDEC_INLINE v128_t add_value(v128_t sum, const Value& value, const Fours& weights, int i) {
    return Products::value(sum, value, Products::Four(weights.p + 4 * i));
  }
};

}  // namespace

extern const Row row;
const Row row = {"wasm", scores<Wasm>, values<Wasm>};

}  // namespace edgedec::byte_products::wasm
