// The products of VNNI. A call has up to 24 queries or rows of weights and 64 rows, which keep tiles busy for less time than it
// takes to configure them and to load what was just turned.
#include "byte_products/avx512_vnni.h"

namespace edgedec::byte_products::amx {

extern const Row row;
const Row row = {"amx", vnni_scores, vnni_values};

}  // namespace edgedec::byte_products::amx
