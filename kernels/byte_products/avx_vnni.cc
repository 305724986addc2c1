// The instruction wants one factor without a sign: keys get 128 more, and sums begin at -128 times the query's own.
#include "byte_products/avx2_impl.h"

namespace edgedec::byte_products::avx_vnni {
namespace {

struct Dot {
  static constexpr int32_t kRaised = -128;

  static EDGEDEC_INLINE __m256i key(__m256i bytes) {
    return _mm256_xor_si256(bytes, _mm256_set1_epi8(static_cast<char>(0x80)));
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
