#include "rotary_table/impl.h"

namespace edgedec::rotary_table::scalar {

extern const Row row;
const Row row = {"scalar", run};

}  // namespace edgedec::rotary_table::scalar
