#include "rotary_table/impl.h"

namespace edgedec::rotary_table::avx512 {

extern const Row row;
const Row row = {"avx512", run};

}  // namespace edgedec::rotary_table::avx512
