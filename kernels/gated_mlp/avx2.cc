#include "common/vec16_avx2.h"
#include "gated_mlp/impl.h"

namespace edgedec::gated_mlp::avx2 {

void activate(Activation act, const float* gate, const float* up, size_t ldi, int m, int columns, float* out,
              size_t ldo) {
  activate_rows<Vec16Avx2>(act, gate, up, ldi, m, columns, out, ldo);
}

}  // namespace edgedec::gated_mlp::avx2
