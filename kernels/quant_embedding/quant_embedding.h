// QuantEmbedding: row ids of a packed table, dequantised: d * q (+ m), d * sc * q - dmin * m, times `scale`.
//
// The products d * sc and dmin * m are exact in fp32; what is rounded is the product with q, the subtraction of the
// minimum, and the final scale, in this order, as in the GGUF reference. A table of floats is widened, then scaled.
#pragma once

#include <cstdint>

#include "formats.h"

namespace edgedec::quant_embedding {

// out[n][table.cols]; returns false, with nothing promised of out, when an id is outside [0, table.rows).
bool embed(const Weight& table, const int64_t* ids, int n, float scale, float* out);

}  // namespace edgedec::quant_embedding
