// C ABI for tests. Returns 0, 1 when the row is unknown or the CPU cannot run it, 2 when an argument is wrong, 3 when the row
// leaves that to others.
#include "byte_products/byte_products.h"
#include "common/capi.h"
#include "common/isa.h"

namespace {

using namespace edgedec::byte_products;

const Row* runnable(const char* name) { return edgedec::cpu_has(name) ? find_row(name) : nullptr; }

bool fits(size_t count, size_t rows) { return count && count <= kMostVectors && rows && rows <= kMostRows; }

bool fits_width(size_t width) { return width && width % 16 == 0 && width <= kMostWidth; }

}  // namespace

// vectors[count][width].
EDGEDEC_EXPORT int edgedec_byte_scores(const char* name, const int8_t* vectors, size_t count, const int8_t* keys, size_t stride,
                                    size_t rows, size_t width, int32_t* sums, size_t sums_stride) {
  const Row* row = runnable(name);
  if (!row) return 1;
  if (!fits(count, rows) || (width != 16 && width != kKeyWidth) || sums_stride < (rows + 15) / 16 * 16) return 2;
  Vector all[kMostVectors];
  for (size_t v = 0; v < count; ++v) {
    all[v] = {vectors + v * width, 0};
    for (size_t c = 0; c < width; ++c) all[v].sum += all[v].bytes[c];
  }
  row->scores(all, count, {keys, stride, rows}, width, sums, sums_stride);
  return 0;
}

EDGEDEC_EXPORT int edgedec_byte_values(const char* name, const uint8_t* weights, size_t count, const int8_t* values,
                                    size_t stride, size_t rows, size_t width, int32_t* sums) {
  const Row* row = runnable(name);
  if (!row) return 1;
  if (!fits(count, rows) || !fits_width(width)) return 2;
  row->values(weights, count, {values, stride, rows}, width, sums);
  return 0;
}

// groups[count][as many as `width` elements have], scores[count][scores_stride].
EDGEDEC_EXPORT int edgedec_byte_add_scores(const char* name, const void* groups, size_t count, const int8_t* keys, size_t stride,
                                           size_t rows, size_t width, const float* scales, size_t begun, float* scores,
                                           size_t scores_stride) {
  const Row* row = runnable(name);
  if (!row) return 1;
  if (!fits(count, rows) || !fits_width(width) || scores_stride < rows) return 2;
  if (!row->add_scores) return 3;
  const Group* first[kMostVectors];
  float* to[kMostVectors];
  for (size_t v = 0; v < count; ++v) {
    first[v] = static_cast<const Group*>(groups) + v * ((width + kKeyWidth - 1) / kKeyWidth);
    to[v] = scores + v * scores_stride;
  }
  row->add_scores(first, count, {keys, stride, rows}, width, scales, begun != 0, to);
  return 0;
}

// out[count][out_stride].
EDGEDEC_EXPORT int edgedec_byte_add_values(const char* name, const uint8_t* weights, const float* factors, size_t count,
                                           const int8_t* values, size_t stride, size_t rows, size_t width, float* out,
                                           size_t out_stride) {
  const Row* row = runnable(name);
  if (!row) return 1;
  if (!fits(count, rows) || !fits_width(width) || out_stride < width) return 2;
  if (!row->add_values) return 3;
  float* to[kMostVectors];
  for (size_t v = 0; v < count; ++v) to[v] = out + v * out_stride;
  row->add_values(weights, factors, count, {values, stride, rows}, width, to);
  return 0;
}
