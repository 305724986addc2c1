#include "common/vec16.h"
#include "gated_mlp/impl.h"

namespace edgedec::gated_mlp::scalar {

void activate(Activation act, const float* gate, const float* up, size_t ldi, int m, int columns, float* out,
              size_t ldo) {
  activate_rows<Vec16Scalar>(act, gate, up, ldi, m, columns, out, ldo);
}

}  // namespace edgedec::gated_mlp::scalar
