#include "ort/ops.h"
#include "quant_linear/linear.h"

namespace edgedec::ort {
namespace {

struct QuantLinear {
  static constexpr const char* kName = "QuantLinear";
  static constexpr Port kInputs[] = {{kFloat}, {kFloat, kOptional}, {kFloat, kOptional}, {kUint8, kVariadic}};
  static constexpr Port kOutputs[] = {{kFloat}};
  static constexpr size_t kFirstWeight = 3;

  explicit QuantLinear(const Info& info)
      : row(quant_linear::find_row(isa(info))), terms(static_cast<int>(info.integer("terms", 1))) {
    if (terms != 1 && terms != 2) info.fail("terms must be 1 or 2");
    const auto formats = info.words("formats");
    const auto rows = info.integers("rows");
    if (formats.size() != rows.size()) info.fail("formats and rows differ in length");
    for (size_t i = 0; info.ok() && i < rows.size(); ++i) inputs.emplace_back(info, formats[i], rows[i], info.integer("cols"));
    for (const auto& w : inputs) columns += w.shape().rows;
    weights.resize(inputs.size());
  }

  void compute(Context& c) {
    if (c.inputs() != kFirstWeight + inputs.size()) return c.fail("as many weights as formats are needed");
    for (size_t i = 0; i < inputs.size(); ++i) weights[i] = inputs[i].at(c, kFirstWeight + i);
    const int m = c.rows(0, weights[0].cols);
    const auto* bias = c.optional<const float>(1);
    const auto* residual = c.optional<const float>(2);
    if (bias && c.elements(1) != static_cast<size_t>(columns)) c.fail("bias has the wrong length");
    if (residual && c.rows(2, columns) != m) c.fail("residual has the wrong shape");
    auto* out = c.output<float>(0, {m, columns});
    const auto* x = c.data<const float>(0);
    if (c.ok() && m)
      quant_linear::linear(*row, c, weights.data(), static_cast<int>(weights.size()), x, m, terms, bias, residual, out);
  }

  const quant_linear::Row* row;
  int terms;
  std::vector<WeightInput> inputs;
  std::vector<Weight> weights;
  int64_t columns = 0;
};

}  // namespace

const KernelOp* quant_linear_op() {
  static const CustomOp<QuantLinear> op;
  return &op;
}

}  // namespace edgedec::ort
