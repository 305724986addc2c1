#include "gated_mlp/onnx.h"

#include "ort/ops.h"

namespace edgedec::ort {
namespace {

struct GatedMlp {
  static constexpr const char* kName = "GatedMLP";
  static constexpr Port kInputs[] = {{kFloat}, {kUint8}, {kUint8}};
  static constexpr Port kOutputs[] = {{kFloat}};

  explicit GatedMlp(const Info& info)
      : linear(quant_linear::find_row(isa(info))),
        row(gated_mlp::find_row(float_row(isa(info)))),
        act(gate_activation(info)),
        gate(info, format(info, 0), info.integer("rows"), info.integer("cols")),
        up(info, format(info, 1), info.integer("rows"), info.integer("cols")) {}

  static std::string format(const Info& info, size_t weight) {
    const auto formats = info.words("formats");
    if (formats.size() == 2) return formats[weight];
    info.fail("formats must name two");
    return {};
  }

  void compute(Context& c) {
    const Weight &g = gate.at(c, 1), &u = up.at(c, 2);
    const int m = c.rows(0, g.cols);
    auto* out = c.output<float>(0, {m, g.rows});
    const auto* x = c.data<const float>(0);
    if (c.ok() && m) gated_mlp::gated_mlp(*linear, *row, c, g, u, act, x, m, out);
  }

  const quant_linear::Row* linear;
  const gated_mlp::Row* row;
  gated_mlp::Activation act;
  WeightInput gate, up;
};

}  // namespace

gated_mlp::Activation activation(const Info& info) {
  const std::string name = info.text("activation");
  gated_mlp::Activation found;
  if (!gated_mlp::activation_by_name(name, &found)) info.fail("unknown activation " + name);
  return found;
}

gated_mlp::Activation gate_activation(const Info& info) {
  const gated_mlp::Activation found = activation(info);
  if (info.ok() && found == gated_mlp::Activation::kSigmoid) info.fail("unknown activation sigmoid");
  return found;
}

const KernelOp* gated_mlp_op() {
  static const CustomOp<GatedMlp> op;
  return &op;
}

}  // namespace edgedec::ort
