// Experts: y[t] = residual[t] + sum over the k experts e chosen for token t of weight[t][e] * down_e(act(gate_e x[t]) * up_e x[t])
//
// Choosing, in fp32, from a router's scores s[t][E]:
//   softmax   the k largest s; gated e^(s - max s)
//   sigmoid   the k largest sigmoid(s) + choice; gated sigmoid(s)
// Of equal ones those with lower indices are chosen. Then, in this order:
//   weight = gated / sum of gated        softmax alone, over all experts in ascending order; left out where the next one divides
//   weight = weight / (sum + epsilon)    with `normalise`, over the chosen in ascending order
//   weight = weight * scale * factor[e]
// The products are QuantLinear's and GatedMLP's. Experts may have biases of gate, up and down, which are added to each product
// right behind it. The sum begins with the residual, or zero, and takes experts in ascending order:
//   y = fma(weight, product, y)
//
// So a token's output depends neither on other tokens nor on how many of them share an expert, and rows agree bit for bit.
//
// All weights of an expert lie together: gate, up and down, and the biases f32[gate rows + up rows + down rows] where there are some,
// each from a multiple of kPartAlignment bytes, the expert itself from a multiple of kExpertAlignment, which lets disks be read past the system's cache.
#pragma once

#include "experts/store.h"
#include "gated_mlp/gated_mlp.h"

namespace edgedec::experts {

constexpr size_t kPartAlignment = 64, kExpertAlignment = 4096;
constexpr int kMostExperts = 1 << 16, kMostChosen = 64;

enum class Gating { kSoftmax, kSigmoid };

struct Routing {
  int experts = 0, chosen = 0;
  Gating gating = Gating::kSoftmax;
  bool normalise = false;
  float epsilon = 0.0f, scale = 1.0f;
};

// An expert of a token. Those of a token lie in ascending order.
struct Chosen {
  int expert;
  float weight;
  int pair;  // its place among the pairs of a token and an expert that are computed together
};

struct Row {
  const char* name;
  // gated[e] = sigmoid(scores[e]), or e^(scores[e] - most) with softmax.
  void (*gate)(Gating gating, const float* scores, float most, int experts, float* gated);
  // to[i] = fma(weight, from[i], to[i])
  void (*add)(float weight, const float* from, float* to, size_t n);
};

// The float row (scalar, avx2, avx512) of that name, or nullptr.
const Row* find_row(const char* name);

// The shapes of a layer's experts, and where parts lie in each, in bytes.
struct Shapes {
  Shapes() = default;
  Shapes(const Weight& gate, const Weight& up, const Weight& down, bool biased);

  Weight gate, up, down;
  size_t up_at = 0, down_at = 0, biases_at = 0, stride = 0;
  bool biased = false;
};

// Where the experts of a layer are: one after the other in memory, or in a store, from its number `first` on.
struct Weights {
  const Shapes& shapes;
  const uint8_t* data;
  Store* store = nullptr;
  int first = 0;
};

// Chooses one token's experts. `choice` and `factor` may be null. `room` holds 2 * experts floats; `chosen` gets routing.chosen.
void choose(const Row& row, const Routing& routing, const float* scores, const float* choice, const float* factor, float* room,
            Chosen* chosen);

struct Rows {
  const quant_linear::Row& linear;
  const gated_mlp::Row& mlp;
  const Row& experts;
};

struct Inputs {
  const float *x, *scores, *choice, *factor, *residual;  // [m][cols], [m][E], [E], [E], [m][cols]; the last three may be null
  int m;
};

// Pairs of a token and an expert that are computed together: an expert with more has them all at once. It bounds the memory
// between gate and sum; each expert is read once whatever it is.
constexpr int kPairsAtOnce = 512;

// out[m][cols]. Zero, or errno of a read that failed, or kTooFewSlots.
constexpr int kTooFewSlots = -1;
int experts(const Rows& rows, Parallel& threads, const Routing& routing, const Weights& weights, gated_mlp::Activation act,
            const Inputs& in, float* out, int pairs_at_once = kPairsAtOnce);

}  // namespace edgedec::experts
