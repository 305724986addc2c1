#include "ort/ops.h"
#include "rotary_table/rotary_table.h"

namespace edgedec::ort {
namespace {

struct RotaryTable {
  static constexpr const char* kName = "RotaryTable";
  static constexpr Port kInputs[] = {{kInt64}, {kFloat}};
  static constexpr Port kOutputs[] = {{kFloat}};

  explicit RotaryTable(const Info& info) : row(rotary_table::find_row(float_row(isa(info)))) {}

  void compute(Context& c) {
    const size_t n = c.elements(0), d = 2 * c.elements(1);
    auto* out = c.output<float>(0, {static_cast<int64_t>(n), static_cast<int64_t>(d)});
    const auto* positions = c.data<const int64_t>(0);
    const auto* frequencies = c.data<const float>(1);
    if (c.ok()) row->run(positions, frequencies, out, 0, n, d);
  }

  const rotary_table::Row* row;
};

}  // namespace

const KernelOp* rotary_table_op() {
  static const CustomOp<RotaryTable> op;
  return &op;
}

}  // namespace edgedec::ort
