#include "quant_embedding/quant_embedding.h"

#include <algorithm>
#include <cstring>

#include "common/parallel.h"
#include "quant_linear/element.h"

namespace edgedec::quant_embedding {
namespace {

template <class F>
void embed_row(const Weight& table, const uint8_t* rec, int c, float scale, float* out) {
  for (int k = 0; k < table.cols; ++k) {
    const int in_record = k % F::kRecord, group = in_record / kGroup, i = in_record % kGroup;
    const uint8_t* here = rec + static_cast<size_t>(k / F::kRecord) * F::kBytes;
    const int q = quant_at<F>(here, group, i / 4, c * 4 + i % 4) - F::kOffset;
    const ScaleMin s = scale_min<F>(here, group, c);
    float step = s.scale, minus_min = s.minus_min;
    if (kHalves<F>) step *= half_scale<F>(here, group, i / 16, c);
    if (kHalves<F> && F::kMin) minus_min *= static_cast<float>(sub_min(here, group, i / 16, c));
    float value = step * static_cast<float>(q);
    if (F::kMin) value += minus_min;
    out[k] = value * scale;
  }
}

EDGEDEC_INLINE float number(F16, const uint8_t* record, int c) { return half_at(record, c); }
EDGEDEC_INLINE float number(BF16, const uint8_t* record, int c) { return bfloat_at(record, c); }
EDGEDEC_INLINE float number(F32, const uint8_t* record, int c) {
  float value;
  std::memcpy(&value, record + 4 * c, 4);
  return value;
}

template <class F>
void embed_float_row(const Weight& table, const uint8_t* record, int c, float scale, float* out) {
  for (int k = 0; k < table.cols; ++k, record += F::kBytes) out[k] = number(F{}, record, c) * scale;
}

}  // namespace

bool inside(const Weight& table, const int64_t* ids, int n) {
  return std::all_of(ids, ids + n, [&](int64_t id) { return id >= 0 && id < table.rows; });
}

bool embed(const Weight& table, const int64_t* ids, int n, float scale, float* out, const MappedFile* file) {
  static constexpr void (*rows[])(const Weight&, const uint8_t*, int, float, float*) = {
#define X(F) embed_row<F>,
      EDGEDEC_INT_FORMATS(X)
#undef X
#define X(F) embed_float_row<F>,
      EDGEDEC_FLOAT_FORMATS(X)
#undef X
  };
  const size_t bytes = table.tile_bytes();
  uint8_t* room = file ? scratch<uint8_t>(Scratch::kTableTile, bytes) : nullptr;
  if (file && !room) return false;
  for (int i = 0; i < n; ++i) {
    const size_t at = bytes * static_cast<size_t>(ids[i] / kTile);
    const uint8_t* tile = file ? file->read(at, bytes, room) : table.data + at;
    rows[static_cast<int>(table.format)](table, tile, static_cast<int>(ids[i] % kTile), scale,
                                         out + static_cast<size_t>(i) * table.cols);
  }
  return true;
}

}  // namespace edgedec::quant_embedding
