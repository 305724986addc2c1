#include "experts/experts.h"

#include <algorithm>
#include <cstring>

namespace edgedec::experts {
namespace {

using quant_linear::Activations;
using quant_linear::Shares;

constexpr int kTokensPerTask = 16;
constexpr size_t kFewFloats = 1 << 15;  // a sum over so many is done before other threads would have begun

// The experts of all tokens, and the pairs of a token and an expert, by expert.
struct Plan {
  const Chosen* chosen;  // [m][k]
  const int* first;      // [E + 1]: the first pair of each expert
  const int* token;      // [m k]
};

// Experts that are computed together: those of `active` from `begin` to `end`, with their pairs.
struct Wave {
  const int* active;
  int count, first, pairs;  // experts, their first pair and number of pairs
  int begin, end;
};

bool route(const Rows& rows, Parallel& threads, const Routing& routing, const Inputs& in, Chosen* chosen) {
  const auto tasks = static_cast<size_t>((in.m + kTokensPerTask - 1) / kTokensPerTask);
  auto body = [&](size_t task) {
    float* room = scratch<float>(Scratch::kGated, 2 * static_cast<size_t>(routing.experts));
    if (!room) return threads.lack_memory();
    const int from = static_cast<int>(task) * kTokensPerTask, to = std::min(from + kTokensPerTask, in.m);
    for (int t = from; t < to; ++t)
      choose(rows.experts, routing, in.scores + static_cast<size_t>(t) * routing.experts, in.choice, in.factor, room,
             chosen + static_cast<size_t>(t) * routing.chosen);
  };
  parallel_for(threads, tasks, body);
  return !threads.lacks_memory();
}

// Sorts pairs by expert, and says each chosen expert which is its pair.
void group(const Routing& routing, int m, Chosen* chosen, int* first, int* token) {
  const int pairs = m * routing.chosen;
  std::fill(first, first + routing.experts + 1, 0);
  for (int i = 0; i < pairs; ++i) ++first[chosen[i].expert + 1];
  for (int e = 0; e < routing.experts; ++e) first[e + 1] += first[e];
  for (int i = 0; i < pairs; ++i) {
    chosen[i].pair = first[chosen[i].expert]++;
    token[chosen[i].pair] = i / routing.chosen;
  }
  for (int e = routing.experts; e > 0; --e) first[e] = first[e - 1];
  first[0] = 0;
}

// Calls body(expert, number of it in the wave, first tile, end) for shares of the tiles of one matrix of all experts.
template <class Body>
void over_tiles(Parallel& threads, const Wave& wave, const Weight& shape, size_t most_tiles, const Body& body) {
  const auto count = static_cast<size_t>(wave.count);
  const int tiles = shape.tiles();
  const Shares shares(threads, count * static_cast<size_t>(tiles), count * shape.bytes(), most_tiles);
  auto task = [&](size_t i) {
    const size_t end = shares.first(i + 1);
    for (size_t at = shares.first(i), next; at < end; at = next) {
      const auto number = static_cast<int>(at / static_cast<size_t>(tiles));
      const size_t before = static_cast<size_t>(number) * static_cast<size_t>(tiles);
      next = std::min(end, before + static_cast<size_t>(tiles));
      body(wave.active[number], static_cast<int>(at - before), static_cast<int>(next - before));
    }
  };
  parallel_for(threads, shares.count(), task);
}

class Computation {
 public:
  Computation(const Rows& rows, Parallel& threads, const Weights& weights, gated_mlp::Activation act, const Inputs& in,
              const Plan& plan)
      : rows_(rows), threads_(threads), weights_(weights), act_(act), in_(in), plan_(plan) {}

  // The outputs of a wave's pairs, [pairs][cols]; null without memory.
  const float* outputs(const Wave& wave) {
    const auto pairs = static_cast<size_t>(wave.pairs);
    float* outer = scratch<float>(Scratch::kOuter, pairs * static_cast<size_t>(weights_.down.rows));
    float* inner = scratch<float>(Scratch::kInner, pairs * static_cast<size_t>(weights_.gate.rows));
    if (!outer || !inner) return threads_.lack_memory(), nullptr;
    if (!gated(wave, outer, inner) || !down(wave, inner, outer)) return nullptr;
    return outer;
  }

 private:
  // A token's activations serve all its experts; those of several tokens are gathered by pair, in `gathered`.
  bool gated(const Wave& wave, float* gathered, float* inner) {
    const Weight &gate = weights_.gate, &up = weights_.up;
    const bool alone = in_.m == 1;
    const int terms = std::max(quant_linear::int8_terms(gate, 1), quant_linear::int8_terms(up, 1));
    Activations activations(rows_.linear, threads_, alone ? in_.x : gathered, alone ? 1 : wave.pairs, gate.cols, terms);
    if (!activations) return threads_.lack_memory(), false;
    const auto cols = static_cast<size_t>(gate.cols);
    SharedPieces gathering(alone ? 0 : static_cast<size_t>((wave.pairs + kTokensPerTask - 1) / kTokensPerTask));
    const auto gather = [&](size_t piece) {
      const int from = static_cast<int>(piece) * kTokensPerTask, to = std::min(from + kTokensPerTask, wave.pairs);
      for (int p = from; p < to; ++p)
        std::memcpy(gathered + static_cast<size_t>(p) * cols,
                    in_.x + static_cast<size_t>(plan_.token[wave.first + p]) * cols, cols * sizeof(float));
    };
    over_tiles(threads_, wave, gate, most_tiles(wave), [&](int expert, int tile0, int tile1) {
      gathering.finish(gather);
      const Acts& acts = activations.ready();
      const int first = plan_.first[expert] - wave.first, n = plan_.first[expert + 1] - plan_.first[expert];
      const int m0 = alone ? 0 : first, m1 = alone ? 1 : first + n;
      const size_t ld = static_cast<size_t>(tile1 - tile0) * kTile;
      float* g = scratch<float>(Scratch::kGate, ld * static_cast<size_t>(n));
      float* u = scratch<float>(Scratch::kUp, ld * static_cast<size_t>(n));
      if (!g || !u) return threads_.lack_memory();
      rows_.linear.tiles[static_cast<int>(gate.format)](weights_.of(gate, expert), acts, m0, m1, tile0, tile1, g, ld);
      rows_.linear.tiles[static_cast<int>(up.format)](weights_.of(up, expert), acts, m0, m1, tile0, tile1, u, ld);
      const auto width = static_cast<size_t>(gate.rows);
      rows_.mlp.activate(act_, g, u, ld, n, std::min(tile1 * kTile, gate.rows) - tile0 * kTile,
                         inner + static_cast<size_t>(first) * width + static_cast<size_t>(tile0) * kTile, width);
    });
    return !threads_.lacks_memory();
  }

  bool down(const Wave& wave, const float* inner, float* outer) {
    const Weight& down = weights_.down;
    Activations activations(rows_.linear, threads_, inner, wave.pairs, down.cols, quant_linear::int8_terms(down, 1));
    if (!activations) return threads_.lack_memory(), false;
    over_tiles(threads_, wave, down, SIZE_MAX / 2, [&](int expert, int tile0, int tile1) {
      const Acts& acts = activations.ready();
      const int first = plan_.first[expert] - wave.first, n = plan_.first[expert + 1] - plan_.first[expert];
      const auto cols = static_cast<size_t>(down.rows);
      rows_.linear.tiles[static_cast<int>(down.format)](weights_.of(down, expert), acts, first, first + n, tile0, tile1,
                                                        outer + static_cast<size_t>(first) * cols +
                                                            static_cast<size_t>(tile0) * kTile, cols);
    });
    return !threads_.lacks_memory();
  }

  // So many that the products of a task stay within the second-level cache.
  size_t most_tiles(const Wave& wave) const {
    int most = 1;
    for (int i = 0; i < wave.count; ++i)
      most = std::max(most, plan_.first[wave.active[i] + 1] - plan_.first[wave.active[i]]);
    return static_cast<size_t>(std::max(1, 2048 / most));
  }

  const Rows& rows_;
  Parallel& threads_;
  const Weights& weights_;
  const gated_mlp::Activation act_;
  const Inputs& in_;
  const Plan& plan_;
};

// Adds a wave's outputs to those of the tokens; the first wave begins them.
void add_outputs(const Row& row, Parallel& threads, const Plan& plan, const Wave& wave, int k, const Inputs& in, size_t cols,
                 const float* outputs, float* out) {
  auto body = [&](size_t task) {
    const int from = static_cast<int>(task) * kTokensPerTask, to = std::min(from + kTokensPerTask, in.m);
    for (int t = from; t < to; ++t) {
      float* y = out + static_cast<size_t>(t) * cols;
      if (wave.begin == 0) {
        if (in.residual)
          std::memcpy(y, in.residual + static_cast<size_t>(t) * cols, cols * sizeof(float));
        else
          std::fill(y, y + cols, 0.0f);
      }
      for (const Chosen* c = plan.chosen + static_cast<size_t>(t) * k; c < plan.chosen + static_cast<size_t>(t + 1) * k; ++c)
        if (c->expert >= wave.begin && c->expert < wave.end)
          row.add(c->weight, outputs + static_cast<size_t>(c->pair - wave.first) * cols, y, cols);
    }
  };
  const auto tasks = static_cast<size_t>((in.m + kTokensPerTask - 1) / kTokensPerTask);
  if (static_cast<size_t>(wave.pairs) * cols > kFewFloats) return parallel_for(threads, tasks, body);
  for (size_t i = 0; i < tasks; ++i) body(i);
}

// The next experts in ascending order with at most `most` pairs together, or one with more.
Wave next_wave(const Plan& plan, int experts, int begin, int most, int* active) {
  Wave wave{active, 0, plan.first[begin], 0, begin, begin};
  for (int n; wave.end < experts; ++wave.end, wave.pairs += n) {
    n = plan.first[wave.end + 1] - plan.first[wave.end];
    if (wave.pairs > 0 && wave.pairs + n > most) break;
    if (n > 0) active[wave.count++] = wave.end;
  }
  return wave;
}

}  // namespace

void experts(const Rows& rows, Parallel& threads, const Routing& routing, const Weights& weights, gated_mlp::Activation act,
             const Inputs& in, float* out, int pairs_at_once) {
  const auto count = static_cast<size_t>(routing.experts), pairs = static_cast<size_t>(in.m) * routing.chosen;
  auto* chosen = scratch<Chosen>(Scratch::kChosen, pairs);
  int* numbers = scratch<int>(Scratch::kPairs, 2 * count + 1 + pairs);
  if (!chosen || !numbers) return threads.lack_memory();
  int *first = numbers, *active = first + count + 1, *token = active + count;
  if (!route(rows, threads, routing, in, chosen)) return;
  group(routing, in.m, chosen, first, token);
  const Plan plan{chosen, first, token};
  Computation computation(rows, threads, weights, act, in, plan);
  const auto cols = static_cast<size_t>(weights.down.rows);
  for (int begin = 0; begin < routing.experts;) {
    const Wave wave = next_wave(plan, routing.experts, begin, pairs_at_once, active);
    const float* outputs = computation.outputs(wave);
    if (!outputs) return;
    add_outputs(rows.experts, threads, plan, wave, routing.chosen, in, cols, outputs, out);
    begin = wave.end;
  }
}

}  // namespace edgedec::experts
