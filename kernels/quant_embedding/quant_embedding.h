// QuantEmbedding: dequantises the rows `ids` of a packed table: d * q (+ m), or d * sc * q - dmin * m; times `scale`.
//
// The products d * sc and dmin * m are exact in fp32. Three operations round, in the order of the GGUF reference: the
// product with q, the subtraction of the minimum, the final scale. A float table is widened, then scaled.
#pragma once

#include <cstdint>

#include "common/mapped_file.h"
#include "packing/formats.h"

namespace edgedec::quant_embedding {

// True when all ids lie in [0, table.rows).
bool inside(const Weight& table, const int64_t* ids, int n);

// Writes out[n][table.cols] for ids inside the table. Returns false, with `out` undefined, without memory.
// file: the file to read the table's tiles from, one for each row; null: read them from memory.
bool embed(const Weight& table, const int64_t* ids, int n, float scale, float* out, const MappedFile* file = nullptr);

}  // namespace edgedec::quant_embedding
