#include "byte_products/neon_sdot.h"

namespace edgedec::byte_products::neon_dotprod {

extern const Row row;
const Row row = {"neon_dotprod", scores<Sdot>, values<Sdot>};

}  // namespace edgedec::byte_products::neon_dotprod
