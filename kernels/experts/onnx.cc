#include <cerrno>
#include <cstring>

#include "experts/experts.h"
#include "gated_mlp/onnx.h"
#include "ort/ops.h"

namespace edgedec::ort {
namespace {

struct Experts {
  static constexpr const char* kName = "Experts";
  static constexpr Port kInputs[] = {{kFloat}, {kFloat}, {kUint8}, {kFloat, kOptional}, {kFloat, kOptional}, {kFloat, kOptional}};
  static constexpr Port kOutputs[] = {{kFloat}};
  enum Input { kX, kScores, kExperts, kChoice, kFactor, kResidual };

  explicit Experts(const Info& info)
      : rows{*quant_linear::find_row(isa(info)), *gated_mlp::find_row(float_row(isa(info))), *experts::find_row(float_row(isa(info)))},
        routing(rules(info)),
        shapes(shapes_of(info)),
        act(gate_activation(info)) {
    const int64_t number = info.integer("store", 0), place = info.integer("place", 0);
    if (number == 0 || !info.ok()) return;
    store = experts::Store::numbered(number);
    const auto checks = info.integers("checks");
    if (checks.size() != static_cast<size_t>(routing.experts)) info.fail("checks must be as many as experts");
    if (store && info.ok()) first = store->add_layer(static_cast<uint64_t>(place), shapes.stride, routing.experts, checks.data());
    if (!store || place < 0) info.fail("no store of experts has that number");
    if (first < 0) info.fail("an expert is larger than a slot of its store");
  }

  static experts::Routing rules(const Info& info) {
    const int64_t all = info.integer("experts"), some = info.integer("chosen");
    if (all < 1 || all > experts::kMostExperts) info.fail("experts must be 1 to " + std::to_string(experts::kMostExperts));
    if (some < 1 || some > all || some > experts::kMostChosen) info.fail("so many experts cannot be chosen");
    const std::string gating = info.text("gating");
    if (gating != "softmax" && gating != "sigmoid") info.fail("unknown gating " + gating);
    return {static_cast<int>(all), static_cast<int>(some),
            gating == "sigmoid" ? experts::Gating::kSigmoid : experts::Gating::kSoftmax, info.integer("normalise") != 0,
            info.real("epsilon", 0.0f), info.real("scale", 1.0f)};
  }

  static experts::Shapes shapes_of(const Info& info) {
    const auto formats = info.words("formats");
    const int64_t width = info.integer("rows"), cols = info.integer("cols");
    if (formats.size() != 3) return info.fail("formats must name three"), experts::Shapes{};
    const Weight gate = WeightInput(info, formats[0], width, cols).shape(), up = WeightInput(info, formats[1], width, cols).shape(),
                 down = WeightInput(info, formats[2], cols, width).shape();
    return info.ok() ? experts::Shapes(gate, up, down, info.integer("biases", 0) != 0) : experts::Shapes{};
  }

  void compute(Context& c) {
    const int m = c.rows(kX, shapes.gate.cols);
    const auto all = static_cast<size_t>(routing.experts);
    if (c.rows(kScores, routing.experts) != m) c.fail("scores have the wrong shape");
    if (!store && c.elements(kExperts) != all * shapes.stride)
      c.fail("packed experts have " + std::to_string(c.elements(kExperts)) + " bytes, their shapes need " +
             std::to_string(all * shapes.stride));
    if (c.has(kChoice) && c.elements(kChoice) != all) c.fail("choice has the wrong length");
    if (c.has(kFactor) && c.elements(kFactor) != all) c.fail("factor has the wrong length");
    if (c.has(kResidual) && c.rows(kResidual, shapes.gate.cols) != m) c.fail("residual has the wrong shape");
    if (m > kMostPairs / routing.chosen) c.fail("too many tokens");
    auto* out = c.output<float>(0, {m, shapes.gate.cols});
    const experts::Inputs in{c.data<const float>(kX),          c.data<const float>(kScores),       c.optional<const float>(kChoice),
                             c.optional<const float>(kFactor), c.optional<const float>(kResidual), m};
    const auto* data = store ? nullptr : reinterpret_cast<const uint8_t*>(c.data<const float>(kExperts));
    if (!c.ok() || !m) return;
    const int error = experts::experts(rows, c, routing, {shapes, data, store, first}, act, in, out);
    if (error == experts::kTooFewSlots) c.fail("too few slots are free for the experts of a pass");
    else if (error == EBADMSG) c.fail("an expert is damaged: verify the bundle, or pull or export the model again");
    else if (error == ENODATA) c.fail("an expert cannot be read: the file of the weights has become shorter");
    else if (error) c.fail(std::string("an expert cannot be read: ") + std::strerror(error));
  }

  static constexpr int kMostPairs = 1 << 28;

  experts::Rows rows;
  experts::Routing routing;
  experts::Shapes shapes;
  gated_mlp::Activation act;
  experts::Store* store = nullptr;  // null: all experts are in memory
  int first = 0;                    // the number there of this layer's first expert
};

}  // namespace

const KernelOp* experts_op() {
  static const CustomOp<Experts> op;
  return &op;
}

}  // namespace edgedec::ort
