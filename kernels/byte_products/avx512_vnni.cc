#include "byte_products/avx512_vnni.h"

namespace edgedec::byte_products::avx512_vnni {

extern const Row row;
const Row row = {"avx512_vnni", vnni_scores, vnni_values, vnni_add_scores, vnni_add_values};

}  // namespace edgedec::byte_products::avx512_vnni
