// Experts by row name, for tests and benchmarks. Status: 0 done, 1 row cannot run here, 2 bad argument, 3 not enough memory.
//
// A layer is its three formats with commas between, and its sizes: rows, cols, experts, chosen, sigmoid, normalise, gelu, pairs at
// once; with epsilon and scale.
#include <cstring>

#include "common/capi.h"
#include "common/isa.h"
#include "common/threads.h"
#include "experts/experts.h"

using namespace edgedec;

namespace {

enum Size { kRows, kCols, kExperts, kChosen, kSigmoid, kNormalise, kGelu, kPairs };

bool next_weight(const char** formats, int rows, int cols, const uint8_t* data, Weight* weight) {
  char name[16] = {};
  const size_t length = std::strcspn(*formats, ",");
  if (length >= sizeof name) return false;
  std::memcpy(name, *formats, length);
  *formats += length + ((*formats)[length] != '\0');
  *weight = {format_by_name(name), rows, cols, data};
  return weight->format != FormatId::kCount && rows > 0 && cols > 0;
}

struct Layer {
  Layer(const char* formats, const int* sizes, const float* factors, const uint8_t* data)
      : routing{sizes[kExperts], sizes[kChosen], sizes[kSigmoid] ? experts::Gating::kSigmoid : experts::Gating::kSoftmax,
                sizes[kNormalise] != 0, factors[0], factors[1]} {
    const int rows = sizes[kRows], cols = sizes[kCols], all = routing.experts, some = routing.chosen;
    known = next_weight(&formats, rows, cols, data, &weights.gate) && next_weight(&formats, rows, cols, data, &weights.up) &&
            next_weight(&formats, cols, rows, data, &weights.down) && some > 0 && some <= all && all <= experts::kMostExperts &&
            some <= experts::kMostChosen && sizes[kPairs] > 0;
    if (!known) return;
    const experts::Places places = experts::places(weights.gate, weights.up, weights.down);
    weights.up.data += places.up, weights.down.data += places.down;
    weights.stride = places.stride;
  }

  experts::Routing routing;
  experts::Weights weights;
  bool known;
};

}  // namespace

// Bytes of an expert of that layer; 0 for a bad argument.
EDGEDEC_EXPORT size_t edgedec_experts_stride(const char* formats, const int* sizes, const float* factors) {
  const Layer layer(formats, sizes, factors, nullptr);
  return layer.known ? layer.weights.stride : 0;
}

// choice, factor and residual may be null.
EDGEDEC_EXPORT int edgedec_experts(const char* name, const char* formats, const int* sizes, const float* factors, const uint8_t* data,
                                   const float* x, const float* scores, const float* choice, const float* factor,
                                   const float* residual, int m, float* out) {
  const quant_linear::Row* linear = quant_linear::find_row(name);
  if (!linear || !cpu_has(name)) return 1;
  const Layer layer(formats, sizes, factors, data);
  if (!layer.known || m < 1) return 2;
  const experts::Rows rows{*linear, *gated_mlp::find_row(float_row(name)), *experts::find_row(float_row(name))};
  OwnThreads threads;
  experts::experts(rows, threads, layer.routing, layer.weights,
                   sizes[kGelu] ? gated_mlp::Activation::kGeluTanh : gated_mlp::Activation::kSilu,
                   {x, scores, choice, factor, residual, m}, out, sizes[kPairs]);
  return threads.lacks_memory() ? 3 : 0;
}

// The experts of one token in ascending order, and their weights. A row of floats, as avx2, chooses.
EDGEDEC_EXPORT int edgedec_choose_experts(const char* name, const char* formats, const int* sizes, const float* factors,
                                          const float* scores, const float* choice, const float* factor, int* chosen,
                                          float* weights) {
  const experts::Row* row = experts::find_row(name);
  if (!row || !cpu_has(name)) return 1;
  const Layer layer(formats, sizes, factors, nullptr);
  if (!layer.known) return 2;
  float* room = scratch<float>(Scratch::kGated, 2 * static_cast<size_t>(layer.routing.experts));
  experts::Chosen found[experts::kMostChosen];
  if (!room) return 3;
  experts::choose(*row, layer.routing, scores, choice, factor, room, found);
  for (int i = 0; i < layer.routing.chosen; ++i) chosen[i] = found[i].expert, weights[i] = found[i].weight;
  return 0;
}
