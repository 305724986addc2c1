#include <algorithm>

#include "gated_mlp/onnx.h"
#include "ort/ops.h"

namespace edgedec::ort {
namespace {

struct GatedProduct {
  static constexpr const char* kName = "GatedProduct";
  static constexpr Port kInputs[] = {{kFloat}, {kFloat}};
  static constexpr Port kOutputs[] = {{kFloat}};
  static constexpr size_t kFloatsPerTask = 1 << 13;  // smaller tasks lose time

  explicit GatedProduct(const Info& info) : row(gated_mlp::find_row(float_row(isa(info)))), act(activation(info)) {}

  void compute(Context& c) {
    const std::vector<int64_t> dims = c.shape(1);
    if (dims.size() != 2 || c.shape(0) != dims) return c.fail("values and gate have different shapes");
    auto* out = c.output<float>(0, {dims[0], dims[1]});
    const auto *values = c.data<const float>(0), *gate = c.data<const float>(1);
    if (!c.ok()) return;
    const auto rows = static_cast<size_t>(dims[0]), d = static_cast<size_t>(dims[1]);
    const size_t step = std::max<size_t>(1, kFloatsPerTask / std::max<size_t>(1, d));
    auto body = [&](size_t i) {
      const size_t m0 = i * step, at = m0 * d;
      row->activate(act, gate + at, values + at, d, static_cast<int>(std::min(step, rows - m0)), static_cast<int>(d),
                    out + at, d);
    };
    if (rows && d) parallel_for(c, (rows + step - 1) / step, body);
  }

  const gated_mlp::Row* row;
  gated_mlp::Activation act;
};

}  // namespace

const KernelOp* gated_product_op() {
  static const CustomOp<GatedProduct> op;
  return &op;
}

}  // namespace edgedec::ort
