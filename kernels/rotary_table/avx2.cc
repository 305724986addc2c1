#include "rotary_table/impl.h"

namespace edgedec::rotary_table::avx2 {

extern const Row row;
const Row row = {"avx2", run};

}  // namespace edgedec::rotary_table::avx2
