#include "rotary_table/impl.h"

namespace edgedec::rotary_table::neon {

extern const Row row;
const Row row = {"neon", run};

}  // namespace edgedec::rotary_table::neon
