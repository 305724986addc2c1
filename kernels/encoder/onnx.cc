#include <algorithm>

#include "encoder/encoder.h"
#include "ort/ops.h"

namespace edgedec::ort {
namespace {

using encoder::Row;

// Smaller tasks lose time, as in rms_norm/onnx.cc.
constexpr size_t kFloatsPerTask = 1 << 14;

const Row* row_of(const Info& info) { return encoder::find_row(float_row(isa(info))); }

// Calls body(m0, m1) for ranges of rows of d floats.
template <class Body>
void for_rows(Context& c, size_t rows, size_t d, const Body& body) {
  const size_t step = std::max<size_t>(1, kFloatsPerTask / std::max<size_t>(1, d));
  auto task = [&](size_t i) { body(i * step, std::min(rows, i * step + step)); };
  if (rows) parallel_for(c, (rows + step - 1) / step, task);
}

struct LayerNorm {
  static constexpr const char* kName = "LayerNorm";
  static constexpr Port kInputs[] = {{kFloat}, {kFloat}, {kFloat, kOptional}, {kFloat, kOptional}};  // x, weight, bias, added
  static constexpr Port kOutputs[] = {{kFloat}};

  explicit LayerNorm(const Info& info) : row(row_of(info)), epsilon(info.real("epsilon")) {}

  void compute(Context& c) {
    const auto width = static_cast<int64_t>(c.elements(1));
    const int m = c.rows(0, width);
    const auto *bias = c.optional<const float>(2), *added = c.optional<const float>(3);
    if (bias && static_cast<int64_t>(c.elements(2)) != width) c.fail("bias has the wrong length");
    if (added && c.rows(3, width) != m) c.fail("what is added has the wrong shape");
    const auto *x = c.data<const float>(0), *weight = c.data<const float>(1);
    auto* out = c.output<float>(0, {m, width});
    if (!c.ok()) return;
    const auto d = static_cast<size_t>(width);
    for_rows(c, static_cast<size_t>(m), d,
             [&](size_t m0, size_t m1) { row->norm(x, added, weight, bias, out, m0, m1, d, epsilon); });
  }

  const Row* row;
  float epsilon;
};

struct Activate {
  static constexpr const char* kName = "Activate";
  static constexpr Port kInputs[] = {{kFloat}, {kFloat, kOptional}};  // x, factor
  static constexpr Port kOutputs[] = {{kFloat}};

  explicit Activate(const Info& info)
      : row(row_of(info)), function(encoder::function_named(info.text("function").c_str())) {
    if (function == encoder::Function::kCount) info.fail("function is none that it knows");
  }

  void compute(Context& c) {
    const std::vector<int64_t> dims = c.shape(0);
    if (dims.size() != 2 || (c.has(1) && c.shape(1) != dims)) return c.fail("x and factor must be matrices of one shape");
    const auto *x = c.data<const float>(0), *factor = c.optional<const float>(1);
    auto* out = c.output<float>(0, {dims[0], dims[1]});
    if (!c.ok()) return;
    const auto d = static_cast<size_t>(dims[1]);
    for_rows(c, static_cast<size_t>(dims[0]), d, [&](size_t m0, size_t m1) {
      row->activate(function, x + m0 * d, factor ? factor + m0 * d : nullptr, out + m0 * d, (m1 - m0) * d);
    });
  }

  const Row* row;
  encoder::Function function;
};

struct Pool {
  static constexpr const char* kName = "Pool";
  static constexpr Port kInputs[] = {{kFloat}, {kInt64}};  // x, offsets
  static constexpr Port kOutputs[] = {{kFloat}};

  explicit Pool(const Info& info)
      : row(row_of(info)), pooling(encoder::pooling_named(info.text("pooling").c_str())) {
    if (pooling == encoder::Pooling::kCount) info.fail("pooling is none that it knows");
  }

  void compute(Context& c) {
    const std::vector<int64_t> dims = c.shape(0);
    const size_t numbers = c.elements(1);
    const auto* offsets = c.data<const int64_t>(1);
    if (!c.ok()) return;
    if (dims.size() != 2 || !encoder::cuts(offsets, numbers, static_cast<size_t>(dims[0])))
      return c.fail("offsets do not cut the tokens into texts");
    const auto* x = c.data<const float>(0);
    auto* out = c.output<float>(0, {static_cast<int64_t>(numbers) - 1, dims[1]});
    if (!c.ok()) return;
    const auto d = static_cast<size_t>(dims[1]);
    auto text = [&](size_t i) {
      row->pool(pooling, x, static_cast<size_t>(offsets[i]), static_cast<size_t>(offsets[i + 1]), d, out + i * d);
    };
    if (numbers > 1) parallel_for(c, numbers - 1, text);
  }

  const Row* row;
  encoder::Pooling pooling;
};

}  // namespace

const KernelOp* layer_norm_op() {
  static const CustomOp<LayerNorm> op;
  return &op;
}

const KernelOp* activate_op() {
  static const CustomOp<Activate> op;
  return &op;
}

const KernelOp* pool_op() {
  static const CustomOp<Pool> op;
  return &op;
}

}  // namespace edgedec::ort
