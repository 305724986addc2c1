#include "byte_products/avx512_vnni.h"

namespace edgedec::byte_products::amx {

extern const Row row;
const Row row = {"amx", vnni_scores, vnni_values};

}  // namespace edgedec::byte_products::amx
