#include "gated_mlp/gated_mlp.h"
#include "ort/ops.h"

namespace edgedec::ort {
namespace {

gated_mlp::Activation activation(const std::string& name) {
  if (name == "silu") return gated_mlp::Activation::kSilu;
  if (name == "gelu_tanh") return gated_mlp::Activation::kGeluTanh;
  throw Error("unknown activation " + name);
}

struct GatedMlp {
  static constexpr const char* kName = "GatedMLP";
  static constexpr Port kInputs[] = {{kFloat}, {kUint8}, {kUint8}};
  static constexpr Port kOutputs[] = {{kFloat}};

  explicit GatedMlp(const Info& info)
      : linear(quant_linear::find_row(isa())),
        row(gated_mlp::find_row(float_row(isa()))),
        act(activation(info.text("activation"))),
        gate(format(info, 0), info.integer("rows"), info.integer("cols")),
        up(format(info, 1), info.integer("rows"), info.integer("cols")) {}

  static std::string format(const Info& info, size_t weight) {
    const auto formats = info.words("formats");
    if (formats.size() != 2) throw Error("formats must name two");
    return formats[weight];
  }

  void compute(Context& c) {
    const Weight &g = gate.at(c, 1), &u = up.at(c, 2);
    const int m = c.rows(0, g.cols);
    auto* out = c.output<float>(0, {m, g.rows});
    if (m) gated_mlp::gated_mlp(*linear, *row, c, g, u, act, c.data<const float>(0), m, out);
  }

  const quant_linear::Row* linear;
  const gated_mlp::Row* row;
  gated_mlp::Activation act;
  WeightInput gate, up;
};

}  // namespace

const OrtCustomOp* gated_mlp_op() {
  static const CustomOp<GatedMlp> op;
  return &op;
}

}  // namespace edgedec::ort
