#include <algorithm>

#include "ort/ops.h"
#include "rms_norm/rms_norm.h"

namespace edgedec::ort {
namespace {

struct RmsNorm {
  static constexpr const char* kName = "RMSNorm";
  static constexpr Port kInputs[] = {{kFloat}, {kFloat}, {kFloat, kOptional}};
  static constexpr Port kOutputs[] = {{kFloat}};
  // Smaller tasks lose time: a second thread joins after 2 to 3 us, in which one thread normalises about 15,000 floats
  // (AVX-512, 2.5 GHz). A row is never split, since its sum has a fixed order.
  static constexpr size_t kFloatsPerTask = 1 << 15;

  explicit RmsNorm(const Info& info) : row(rms_norm::find_row(float_row(isa(info)))), epsilon(info.real("epsilon")) {}

  void compute(Context& c) {
    const auto d = static_cast<int64_t>(c.elements(1));
    const int m = c.rows(0, d);
    const auto* residual = c.optional<const float>(2);
    if (residual && c.rows(2, d) != m) c.fail("residual has the wrong shape");
    const auto *x = c.data<const float>(0), *weight = c.data<const float>(1);
    auto* out = c.output<float>(0, {m, d});
    if (!c.ok()) return;
    const size_t rows = static_cast<size_t>(m), step = std::max<size_t>(1, kFloatsPerTask / std::max<int64_t>(1, d));
    auto body = [&](size_t i) {
      const size_t m0 = i * step, m1 = std::min(rows, m0 + step);
      row->run(x, weight, residual, out, m0, m1, static_cast<size_t>(d), epsilon);
    };
    if (m) parallel_for(c, (rows + step - 1) / step, body);
  }

  const rms_norm::Row* row;
  float epsilon;
};

}  // namespace

const KernelOp* rms_norm_op() {
  static const CustomOp<RmsNorm> op;
  return &op;
}

}  // namespace edgedec::ort
