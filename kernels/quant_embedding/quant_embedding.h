// QuantEmbedding: row ids of a packed table, dequantised: d * q (+ m), d * sc * q - dmin * m, times `scale`.
//
// The products d * sc and dmin * m are exact in fp32; what is rounded is the product with q, the subtraction of the
// minimum, and the final scale, in this order, as in the GGUF reference. A table of floats is widened, then scaled.
#pragma once

#include <cstdint>

#include "common/mapped_file.h"
#include "packing/formats.h"

namespace edgedec::quant_embedding {

// out[n][table.cols]; returns false, with nothing promised of out, when an id is outside [0, table.rows).
// file: where the table's bytes are read from, one tile for each row; null: from memory.
bool embed(const Weight& table, const int64_t* ids, int n, float scale, float* out, const MappedFile* file = nullptr);

}  // namespace edgedec::quant_embedding
