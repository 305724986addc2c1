// vpmaddubsw wants one factor without a sign: scores take |key|, and the query with the key's sign. A sum of two products of
// numbers up to 127 fits 16 bits; four do not.
#include "byte_products/avx2_impl.h"

namespace edgedec::byte_products::avx2 {
namespace {

struct Madd {
  static constexpr int32_t kRaised = 0;

  static EDGEDEC_INLINE __m256i key(__m256i bytes) { return bytes; }
  static EDGEDEC_INLINE __m256i widened(__m256i sum, __m256i pairs) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static EDGEDEC_INLINE __m256i add_scores(__m256i sum, __m256i key, __m256i query) {
    return widened(sum, _mm256_maddubs_epi16(_mm256_abs_epi8(key), _mm256_sign_epi8(query, key)));
  }
  static EDGEDEC_INLINE __m256i add_values(__m256i sum, __m256i weights, __m256i values) {
    return widened(sum, _mm256_maddubs_epi16(weights, values));
  }
};

}  // namespace

extern const Row row;
const Row row = {"avx2", scores<Madd>, values<Madd>};

}  // namespace edgedec::byte_products::avx2
