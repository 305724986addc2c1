#include "ort/ops.h"
#include "rms_norm/rms_norm.h"

namespace edgedec::ort {
namespace {

struct RmsNorm {
  static constexpr const char* kName = "RMSNorm";
  static constexpr Port kInputs[] = {{kFloat}, {kFloat}, {kFloat, kOptional}};
  static constexpr Port kOutputs[] = {{kFloat}};
  static constexpr size_t kRowsAtOnce = 16;  // fewer are quicker done than handed over

  explicit RmsNorm(const Info& info) : row(rms_norm::find_row(float_row(isa()))), epsilon(info.real("epsilon")) {}

  void compute(Context& c) {
    const auto d = static_cast<int64_t>(c.elements(1));
    const int m = c.rows(0, d);
    const auto* residual = c.optional<const float>(2);
    if (residual && c.rows(2, d) != m) throw Error("residual has the wrong shape");
    const auto *x = c.data<const float>(0), *weight = c.data<const float>(1);
    auto* out = c.output<float>(0, {m, d});
    const size_t rows = static_cast<size_t>(m);
    auto body = [&](size_t i) {
      const size_t m0 = i * kRowsAtOnce, m1 = m0 + kRowsAtOnce < rows ? m0 + kRowsAtOnce : rows;
      row->run(x, weight, residual, out, m0, m1, static_cast<size_t>(d), epsilon);
    };
    parallel_for(c, (rows + kRowsAtOnce - 1) / kRowsAtOnce, body);
  }

  const rms_norm::Row* row;
  float epsilon;
};

}  // namespace

const OrtCustomOp* rms_norm_op() {
  static const CustomOp<RmsNorm> op;
  return &op;
}

}  // namespace edgedec::ort
