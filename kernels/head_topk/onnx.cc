#include <cmath>

#include "head_topk/head_topk.h"
#include "ort/ops.h"

namespace edgedec::ort {
namespace {

struct HeadTopK {
  static constexpr const char* kName = "HeadTopK";
  static constexpr Port kInputs[] = {{kFloat}, {kUint8}, {kInt64}, {kInt64, kOptional}, {kFloat, kOptional}};
  static constexpr Port kOutputs[] = {{kFloat}, {kInt32}, {kFloat}, {kFloat}, {kFloat}};

  explicit HeadTopK(const Info& info)
      : linear(quant_linear::find_row(isa(info))),
        row(head_topk::find_row(float_row(isa(info)))),
        table(info, info.text("format"), info.integer("rows"), info.integer("cols")),
        refined(info.integer("refine", 0) != 0),
        softcap(info.real("softcap", 0.0f)),
        k(info.integer("k")) {
    if (k < 1 || k > head_topk::kBlock) info.fail("k must be 1 to " + std::to_string(head_topk::kBlock));
    if (!(softcap >= 0.0f)) info.fail("softcap must be 0 or more");
  }

  void compute(Context& c) {
    const Weight& w = table.at(c, 1);
    const int r = c.rows(0, w.cols);
    if (c.elements(2) != 1) c.fail("want_logits must be one number");
    const auto *wanted = c.data<const int64_t>(2);
    const int64_t* keep = c.optional<const int64_t>(3);
    const size_t kept = c.has(3) ? c.elements(3) : 0;
    const head_topk::Scale scale{softcap, inverse_temperature(c)};
    const auto* x = c.data<const float>(0);
    if (!c.ok()) return;
    const bool want = *wanted != 0;
    if (!kept) keep = nullptr;  // no ids: the whole vocabulary
    for (size_t i = 0; i < kept; ++i)
      if (keep[i] < 0 || keep[i] >= w.rows || (i && keep[i] <= keep[i - 1]))
        return c.fail("keep must be ascending ids inside the vocabulary");
    head_topk::Result out;
    out.values = c.output<float>(0, {r, k});
    out.ids = c.output<int32_t>(1, {r, k});
    out.logsumexp = c.output<float>(2, {r});
    out.entropy = c.output<float>(3, {r});
    auto* logits = c.output<float>(4, {want ? r : 0, w.rows});
    out.logits = want ? logits : nullptr;
    if (c.ok() && r)
      head_topk::head_topk(*linear, *row, c, w, x, r, refined, scale, keep, static_cast<int>(kept),
                           static_cast<int>(k), out);
  }

  static float inverse_temperature(const Context& c) {
    if (!c.has(4)) return 1.0f;
    if (c.elements(4) != 1) c.fail("temperature must be one number");
    const auto* temperature = c.data<const float>(4);
    if (!c.ok()) return 1.0f;
    const float inverse = 1.0f / *temperature;
    if (!(inverse > 0.0f && std::isfinite(inverse))) c.fail("temperature must be positive and finite");
    return inverse;
  }

  const quant_linear::Row* linear;
  const head_topk::Row* row;
  WeightInput table;
  bool refined;
  float softcap;
  int64_t k;
};

}  // namespace

const KernelOp* head_topk_op() {
  static const CustomOp<HeadTopK> op;
  return &op;
}

}  // namespace edgedec::ort
