// Experts by row name, for tests and benchmarks. Status: 0 done, 1 row cannot run here, 2 bad argument, 3 not enough memory.
//
// A layer is its three formats with commas between, and its sizes: rows, cols, experts, chosen, sigmoid, normalise, activation (0 silu,
// 1 gelu, 2 clamped silu), biases, pairs at once; with epsilon and scale.
#include <cerrno>
#include <cstring>

#include "common/capi.h"
#include "common/isa.h"
#include "common/threads.h"
#include "experts/experts.h"

using namespace edgedec;

namespace {

enum Size { kRows, kCols, kExperts, kChosen, kSigmoid, kNormalise, kActivation, kBiases, kPairs };

bool next_weight(const char** formats, int rows, int cols, Weight* weight) {
  char name[16] = {};
  const size_t length = std::strcspn(*formats, ",");
  if (length >= sizeof name) return false;
  std::memcpy(name, *formats, length);
  *formats += length + ((*formats)[length] != '\0');
  *weight = {format_by_name(name), rows, cols, nullptr};
  return weight->format != FormatId::kCount && rows > 0 && cols > 0;
}

struct Layer {
  Layer(const char* formats, const int* sizes, const float* factors)
      : routing{sizes[kExperts], sizes[kChosen], sizes[kSigmoid] ? experts::Gating::kSigmoid : experts::Gating::kSoftmax,
                sizes[kNormalise] != 0, factors[0], factors[1]} {
    const int rows = sizes[kRows], cols = sizes[kCols], all = routing.experts, some = routing.chosen;
    Weight gate, up, down;
    known = next_weight(&formats, rows, cols, &gate) && next_weight(&formats, rows, cols, &up) &&
            next_weight(&formats, cols, rows, &down) && some > 0 && some <= all && all <= experts::kMostExperts &&
            some <= experts::kMostChosen && sizes[kPairs] > 0 && sizes[kActivation] >= 0 && sizes[kActivation] < 3;
    if (known) shapes = {gate, up, down, sizes[kBiases] != 0};
  }

  experts::Routing routing;
  experts::Shapes shapes;
  bool known;
};

}  // namespace

// Bytes of an expert of that layer; 0 for a bad argument.
EDGEDEC_EXPORT size_t edgedec_experts_stride(const char* formats, const int* sizes, const float* factors) {
  const Layer layer(formats, sizes, factors);
  return layer.known ? layer.shapes.stride : 0;
}

// choice, factor and residual may be null. With `store`, the number of one, weights are its layer at `offset`; `data` is null. 4: that
// cannot be read.
EDGEDEC_EXPORT int edgedec_experts(const char* name, const char* formats, const int* sizes, const float* factors, const uint8_t* data,
                                   int64_t store, uint64_t offset, const float* x, const float* scores, const float* choice, const float* factor,
                                   const float* residual, int m, float* out) {
  const quant_linear::Row* linear = quant_linear::find_row(name);
  if (!linear || !cpu_has(name)) return 1;
  const Layer layer(formats, sizes, factors);
  if (!layer.known || m < 1) return 2;
  experts::Weights weights{layer.shapes, data, experts::Store::numbered(store), 0};
  if (weights.store) weights.first = weights.store->add_layer(offset, layer.shapes.stride, layer.routing.experts);
  if (weights.first < 0 || (store && !weights.store)) return 2;
  const experts::Rows rows{*linear, *gated_mlp::find_row(float_row(name)), *experts::find_row(float_row(name))};
  OwnThreads threads;
  const int error = experts::experts(rows, threads, layer.routing, weights,
                   static_cast<gated_mlp::Activation>(sizes[kActivation]),
                   {x, scores, choice, factor, residual, m}, out, sizes[kPairs]);
  return threads.lacks_memory() ? 3 : error ? 4 : 0;
}

// The experts of one token in ascending order, and their weights. A row of floats, as avx2, chooses.
EDGEDEC_EXPORT int edgedec_choose_experts(const char* name, const char* formats, const int* sizes, const float* factors,
                                          const float* scores, const float* choice, const float* factor, int* chosen,
                                          float* weights) {
  const experts::Row* row = experts::find_row(name);
  if (!row || !cpu_has(name)) return 1;
  const Layer layer(formats, sizes, factors);
  if (!layer.known) return 2;
  float* room = scratch<float>(Scratch::kGated, 2 * static_cast<size_t>(layer.routing.experts));
  experts::Chosen found[experts::kMostChosen];
  if (!room) return 3;
  experts::choose(*row, layer.routing, scores, choice, factor, room, found);
  for (int i = 0; i < layer.routing.chosen; ++i) chosen[i] = found[i].expert, weights[i] = found[i].weight;
  return 0;
}

// Opens a store of experts over a file, and returns its number; 0 with errno in `error`.
EDGEDEC_EXPORT int64_t edgedec_open_store(const char* path, size_t slot_bytes, size_t slots, int lanes, int direct, int* error) {
  experts::Store* store = experts::Store::open(path, {slot_bytes, slots, lanes, direct != 0}, error);
  if (!store) return 0;
  const int64_t number = experts::Store::list(store);
  if (!number) delete store, *error = EMFILE;
  return number;
}

// The check of an expert's bytes, a multiple of eight.
EDGEDEC_EXPORT int64_t edgedec_expert_checksum(const uint8_t* expert, size_t bytes) { return experts::checksum(expert, bytes); }

// Lets passes keep so many experts in memory, at most the slots that it was opened with.
EDGEDEC_EXPORT void edgedec_limit_store(int64_t number, size_t slots) {
  if (experts::Store* store = experts::Store::numbered(number)) store->limit(slots);
}

// Ends passes that wait for experts, and those that come until `now` is 0 again.
EDGEDEC_EXPORT void edgedec_interrupt_store(int64_t number, int now) {
  if (experts::Store* store = experts::Store::numbered(number)) store->interrupt(now != 0);
}

// No session may be open over it.
EDGEDEC_EXPORT void edgedec_close_store(int64_t number) { delete experts::Store::unlist(number); }

// Lets a store note what passes hold from now on, as at most so many numbers.
EDGEDEC_EXPORT void edgedec_trace_store(int64_t number, size_t most) {
  if (experts::Store* store = experts::Store::numbered(number)) store->trace(most);
}

// Copies those numbers, each time how many experts and which, and returns how many they are.
EDGEDEC_EXPORT size_t edgedec_store_trace(int64_t number, int* numbers, size_t room) {
  const experts::Store* store = experts::Store::numbered(number);
  return store ? store->traced(numbers, room) : 0;
}

// Experts held by passes, those that were in a slot, bytes read, nanoseconds that passes waited.
EDGEDEC_EXPORT int edgedec_store_counts(int64_t number, uint64_t* counts) {
  const experts::Store* store = experts::Store::numbered(number);
  if (!store) return 2;
  const experts::StoreCounts now = store->counts();
  counts[0] = now.held, counts[1] = now.hits, counts[2] = now.bytes_read, counts[3] = now.nanoseconds_waited;
  return 0;
}
