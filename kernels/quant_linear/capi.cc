// The quantised ops by row name, on one thread, for tests and benchmarks. Status: 0 done, 1 row cannot run here,
// 2 bad argument.
#include "common/capi.h"
#include "common/isa.h"
#include "gated_mlp/gated_mlp.h"
#include "head_topk/head_topk.h"
#include "quant_embedding/quant_embedding.h"
#include "quant_linear/linear.h"

using namespace edgedec;

namespace {

const quant_linear::Row* runnable(const char* name) {
  const quant_linear::Row* row = quant_linear::find_row(name);
  return row && cpu_has(name) ? row : nullptr;
}

bool weight(const char* format, const uint8_t* data, int rows, int cols, Weight* w) {
  *w = {format_by_name(format), rows, cols, data};
  return w->format != FormatId::kCount && rows > 0 && cols > 0;
}

}  // namespace

EDGEDEC_EXPORT int edgedec_quant_linear(const char* name, const char* format, const uint8_t* data, int rows, int cols,
                                        const float* x, int m, int terms, const float* bias, const float* residual,
                                        float* out) {
  const quant_linear::Row* row = runnable(name);
  Weight w;
  if (!row) return 1;
  if (!weight(format, data, rows, cols, &w) || terms < 1 || terms > 2) return 2;
  Serial serial;
  quant_linear::linear(*row, serial, &w, 1, x, m, terms, bias, residual, out);
  return 0;
}

EDGEDEC_EXPORT int edgedec_quantise(const char* name, const float* x, int m, int cols, int8_t* q, float* scale,
                                    int32_t* sum) {
  const quant_linear::Row* row = runnable(name);
  if (!row) return 1;
  row->quantise(x, cols, 0, m, padded_k(cols), q, scale, sum);
  return 0;
}

EDGEDEC_EXPORT int edgedec_gated_mlp(const char* name, const char* gate_format, const uint8_t* gate,
                                     const char* up_format, const uint8_t* up, int rows, int cols, int gelu,
                                     const float* x, int m, float* out) {
  const quant_linear::Row* row = runnable(name);
  Weight g, u;
  if (!row) return 1;
  if (!weight(gate_format, gate, rows, cols, &g) || !weight(up_format, up, rows, cols, &u)) return 2;
  Serial serial;
  gated_mlp::gated_mlp(*row, *gated_mlp::find_row(float_row(name)), serial, g, u,
                       gelu ? gated_mlp::Activation::kGeluTanh : gated_mlp::Activation::kSilu, x, m, out);
  return 0;
}

EDGEDEC_EXPORT int edgedec_head_topk(const char* name, const char* format, const uint8_t* data, int rows, int cols,
                                     const float* x, int r, int refined, float softcap, float temperature,
                                     const int64_t* keep, int kept, int k, float* values, int32_t* ids, float* logsumexp,
                                     float* entropy, float* logits) {
  const quant_linear::Row* row = runnable(name);
  Weight w;
  if (!row) return 1;
  if (!weight(format, data, rows, cols, &w) || k < 1 || k > head_topk::kBlock) return 2;
  Serial serial;
  head_topk::head_topk(*row, *head_topk::find_row(float_row(name)), serial, w, x, r, refined != 0,
                       {softcap, 1.0f / temperature}, keep, kept, k, {values, ids, logsumexp, entropy, logits});
  return 0;
}

EDGEDEC_EXPORT int edgedec_quant_embedding(const char* format, const uint8_t* data, int rows, int cols,
                                           const int64_t* ids, int n, float scale, float* out) {
  Weight w;
  if (!weight(format, data, rows, cols, &w)) return 2;
  return quant_embedding::embed(w, ids, n, scale, out) ? 0 : 2;
}
