#include <algorithm>

#include "recurrent/onnx.h"
#include "short_conv/short_conv.h"

namespace edgedec::ort {
namespace {

struct ShortConv {
  static constexpr const char* kName = "ShortConv";
  // projected, parents, length, applied, trail, conv_weight
  static constexpr Port kInputs[] = {{kFloat}, {kInt64}, {kInt64}, {kInt64}, {kFloat}, {kFloat}};
  static constexpr Port kOutputs[] = {{kFloat}, {kFloat, kOptional}};

  explicit ShortConv(const Info& info)
      : row(short_conv::find_row(float_row(isa(info)))), layer(info.integer("layer")),
        taps(static_cast<size_t>(std::max<int64_t>(0, info.integer("kernel")))) {
    if (const char* wrong = recurrent::taps_problem(taps); wrong && info.ok()) info.fail(wrong);
  }

  void compute(Context& c) {
    // The weights of the convolution [hidden, taps] say how wide a row is.
    const std::vector<int64_t> dims = c.shape(5);
    const bool fits = dims.size() == 2 && dims[0] > 0 && dims[1] == static_cast<int64_t>(taps);
    if (!fits) return c.fail("conv_weight must be a matrix of " + std::to_string(taps) + " columns");
    const short_conv::Config config = {static_cast<size_t>(dims[0]), taps};
    if (const char* wrong = short_conv::problem(config)) return c.fail(wrong);
    Recurrence pass;
    if (!pass.read(c, layer, taps, 3 * config.hidden, config.hidden)) return;
    const auto *projected = c.data<const float>(0), *conv = c.data<const float>(5);
    auto* out = c.output<float>(0, {static_cast<int64_t>(pass.tokens), dims[0]});
    if (!c.ok()) return;
    float* products = scratch<float>(Scratch::kProducts, pass.tokens * config.hidden);
    if (!products) return c.lack_memory();
    std::vector<short_conv::Job> jobs;
    for (size_t i = 0; i < pass.all.size(); ++i) {
      const size_t first = pass.list.all[i].first;
      jobs.push_back({pass.all[i], projected + first * 3 * config.hidden, products + first * config.hidden,
                      out + first * config.hidden});
      jobs.back().one.tokens_at = jobs.back().products;
      jobs.back().one.token_row = config.hidden;
    }
    if (pass.tokens) short_conv::run(*row, c, config, conv, jobs.data(), jobs.size());
    // Rows for the trail: none, as in GatedDelta.
    c.optional_output<float>(1, {1, 0, dims[0]});
  }

  const short_conv::Row* row;
  int64_t layer;
  size_t taps;
};

}  // namespace

const KernelOp* short_conv_op() {
  static const CustomOp<ShortConv> op;
  return &op;
}

}  // namespace edgedec::ort
