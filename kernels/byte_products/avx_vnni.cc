// The instruction wants one factor without a sign: keys get 128 more, and sums begin at -128 times the query's own.
#include "byte_products/avx2_impl.h"

namespace edgedec::byte_products::avx_vnni {
namespace {

struct Dot {
  static EDGEDEC_INLINE __m256i key(__m256i bytes) {
    return _mm256_xor_si256(bytes, _mm256_set1_epi8(static_cast<char>(0x80)));
  }
  static EDGEDEC_INLINE int32_t start(const int8_t* vector, size_t width) {
    __m128i sum = _mm_setzero_si128();
    for (size_t c = 0; c < width; c += 16) {
      const __m128i raised = _mm_xor_si128(loaded16(vector + c), _mm_set1_epi8(static_cast<char>(0x80)));
      sum = _mm_add_epi64(sum, _mm_sad_epu8(raised, _mm_setzero_si128()));
    }
    return -128 * (_mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 2) - 128 * static_cast<int32_t>(width));
  }
  static EDGEDEC_INLINE __m256i add_scores(__m256i sum, __m256i key, __m256i query) {
    return _mm256_dpbusd_avx_epi32(sum, key, query);
  }
  static EDGEDEC_INLINE __m256i add_values(__m256i sum, __m256i weights, __m256i values) {
    return _mm256_dpbusd_avx_epi32(sum, weights, values);
  }
};

}  // namespace

extern const Row row;
const Row row = {"avx_vnni", scores<Dot>, values<Dot>};

}  // namespace edgedec::byte_products::avx_vnni
