// The products of VNNI. Tiles were not tried: a call has at most 24 queries and 64 rows.
#include "byte_products/avx512_vnni.h"

namespace edgedec::byte_products::amx {

extern const Row row;
const Row row = {"amx", vnni_scores, vnni_values, vnni_add_scores, vnni_add_values};

}  // namespace edgedec::byte_products::amx
