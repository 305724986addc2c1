#include <algorithm>

#include "gated_delta/gated_delta.h"
#include "recurrent/onnx.h"

namespace edgedec::ort {
namespace {

struct GatedDelta {
  using Config = gated_delta::Config;
  using Job = gated_delta::Job;

  static constexpr const char* kName = "GatedDelta";
  // projected, parents, length, applied, trail, state, conv_weight, decay, dt_bias, norm_weight
  static constexpr Port kInputs[] = {{kFloat}, {kInt64}, {kInt64}, {kInt64}, {kFloat},
                                     {kFloat}, {kFloat}, {kFloat}, {kFloat}, {kFloat}};
  static constexpr Port kOutputs[] = {{kFloat}, {kFloat, kOptional}, {kFloat, kOptional}};

  explicit GatedDelta(const Info& info)
      : row(gated_delta::find_row(float_row(isa(info)))), layer(info.integer("layer")) {
    config.k_heads = size(info, "k_heads");
    config.v_heads = size(info, "v_heads");
    config.k_dim = size(info, "k_dim");
    config.v_dim = size(info, "v_dim");
    config.taps = size(info, "kernel");
    config.epsilon = info.real("epsilon");
    config.tiled = info.integer("tiled", 0) != 0;
    if (const char* wrong = gated_delta::problem(config); wrong && info.ok()) info.fail(wrong);
  }

  static size_t size(const Info& info, const char* name) {
    return static_cast<size_t>(std::max<int64_t>(0, info.integer(name)));
  }

  // The state of the part-th sequence of this layer in an input [L, sequences, state], which the op writes into.
  float* states(const Context& c, size_t sequences) const {
    const std::vector<int64_t> dims = c.shape(5);
    const bool fits = dims.size() == 3 && layer < dims[0] && dims[1] == static_cast<int64_t>(sequences) &&
                      dims[2] == static_cast<int64_t>(config.state());
    if (!fits)
      c.fail("the state must be [layers, " + std::to_string(sequences) + ", " + std::to_string(config.state()) + "]");
    auto* all = fits ? c.data<float>(5) : nullptr;
    return all ? all + static_cast<size_t>(layer) * sequences * config.state() : nullptr;
  }

  // A vector of the layer, or the weights of its convolution [channels, taps].
  const float* vector(const Context& c, size_t input, size_t size, const char* name) const {
    if (c.elements(input) != size) c.fail(std::string(name) + " must have " + std::to_string(size) + " numbers");
    return c.data<const float>(input);
  }

  void compute(Context& c) {
    Recurrence pass;
    if (!pass.read(c, layer, config.taps, config.token_row(), config.trail_row())) return;
    float* state = states(c, pass.sequences);
    const auto taps = static_cast<int64_t>(config.taps);
    if (c.rows(6, taps) != static_cast<int64_t>(config.channels()))
      c.fail("conv_weight must have " + std::to_string(config.channels()) + " rows");
    const gated_delta::Weights weights = {
        c.data<const float>(6), vector(c, 7, config.v_heads, "decay"), vector(c, 8, config.v_heads, "dt_bias"),
        vector(c, 9, config.v_dim, "norm_weight")};
    const auto width = static_cast<int64_t>(config.values());
    auto* out = c.output<float>(0, {static_cast<int64_t>(pass.tokens), width});
    if (!c.ok()) return;
    std::vector<Job> jobs;
    for (size_t i = 0; i < pass.all.size(); ++i) {
      const SequenceAt& at = pass.list.all[i];
      jobs.push_back({pass.all[i], state + at.part * config.state(), out + at.first * config.values()});
    }
    if (pass.tokens) gated_delta::run(*row, c, config, weights, jobs.data(), jobs.size());
    // Rows for the trail and the state after the pass: none, since the op has written its inputs. The op's body in
    // standard ONNX ops cannot, so there they have the rows of all tokens, and the state.
    c.optional_output<float>(1, {1, 0, static_cast<int64_t>(config.trail_row())});
    c.optional_output<float>(2, {1, 0, static_cast<int64_t>(config.state())});
  }

  const gated_delta::Row* row;
  Config config{};
  int64_t layer;
};

}  // namespace

const KernelOp* gated_delta_op() {
  static const CustomOp<GatedDelta> op;
  return &op;
}

}  // namespace edgedec::ort
