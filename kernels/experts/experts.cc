#include "experts/experts.h"

#include <algorithm>
#include <cstring>

#include "experts/waves.h"

namespace edgedec::experts {
namespace {

using quant_linear::Activations;
using quant_linear::Shares;

constexpr int kTokensPerTask = 16;
constexpr size_t kFewFloats = 1 << 15;  // a sum over so many is done before other threads would have begun

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

// Calls body(number of the expert in the wave, first tile, end) for shares of the tiles of one matrix of experts.
template <class Body>
void over_tiles(Parallel& threads, const Batch& batch, const Weight& shape, size_t most_tiles, const Body& body) {
  const auto count = static_cast<size_t>(batch.end - batch.begin);
  const int tiles = shape.tiles();
  const Shares shares(threads, count * static_cast<size_t>(tiles), count * shape.bytes(), most_tiles);
  auto task = [&](size_t i) {
    const size_t end = shares.first(i + 1);
    for (size_t at = shares.first(i), next; at < end; at = next) {
      const auto number = static_cast<int>(at / static_cast<size_t>(tiles));
      const size_t before = static_cast<size_t>(number) * static_cast<size_t>(tiles);
      next = std::min(end, before + static_cast<size_t>(tiles));
      body(batch.begin + number, static_cast<int>(at - before), static_cast<int>(next - before));
    }
  };
  parallel_for(threads, shares.count(), task);
}

class Computation {
 public:
  Computation(const Rows& rows, Parallel& threads, const Shapes& shapes, gated_mlp::Activation act, const Inputs& in)
      : rows_(rows), threads_(threads), shapes_(shapes), act_(act), in_(in) {}

  // Computes a batch of a wave's experts into outputs[pairs of the wave][cols]; false without memory.
  bool run(const Wave& wave, const Batch& batch, float* outputs) {
    const auto pairs = static_cast<size_t>(wave.first_pair[batch.end] - wave.first_pair[batch.begin]);
    float* inner = scratch<float>(Scratch::kInner, pairs * static_cast<size_t>(shapes_.gate.rows));
    if (!inner) return threads_.lack_memory(), false;
    outputs += static_cast<size_t>(wave.first_pair[batch.begin]) * static_cast<size_t>(shapes_.down.rows);
    return gated(wave, batch, outputs, inner) && down(wave, batch, inner, outputs);
  }

 private:
  // The pairs of one expert, counted from the batch's first.
  struct Pairs {
    Pairs(const Wave& wave, const Batch& batch, int number)
        : first(wave.first_pair[number] - wave.first_pair[batch.begin]),
          count(wave.first_pair[number + 1] - wave.first_pair[number]) {}
    int first, count;
  };

  static Weight part(Weight shape, const uint8_t* expert, size_t at) {
    shape.data = expert + at;
    return shape;
  }

  // A token's activations serve all its experts; those of several tokens are gathered by pair where outputs will be.
  bool gated(const Wave& wave, const Batch& batch, float* gathered, float* inner) {
    const Weight &gate = shapes_.gate, &up = shapes_.up;
    const bool alone = in_.m == 1;
    const int start = wave.first_pair[batch.begin], pairs = wave.first_pair[batch.end] - start;
    const int terms = std::max(quant_linear::int8_terms(gate, 1), quant_linear::int8_terms(up, 1));
    Activations activations(rows_.linear, threads_, alone ? in_.x : gathered, alone ? 1 : pairs, gate.cols, terms);
    if (!activations) return threads_.lack_memory(), false;
    const auto cols = static_cast<size_t>(gate.cols), width = static_cast<size_t>(gate.rows);
    SharedPieces gathering(alone ? 0 : static_cast<size_t>((pairs + kTokensPerTask - 1) / kTokensPerTask));
    const auto gather = [&](size_t piece) {
      const int from = static_cast<int>(piece) * kTokensPerTask, to = std::min(from + kTokensPerTask, pairs);
      for (int p = from; p < to; ++p)
        std::memcpy(gathered + static_cast<size_t>(p) * cols, in_.x + static_cast<size_t>(wave.token[start + p]) * cols,
                    cols * sizeof(float));
    };
    over_tiles(threads_, batch, gate, most_tiles(wave, batch), [&](int number, int tile0, int tile1) {
      gathering.finish(gather);
      const Acts& acts = activations.ready();
      const Pairs own(wave, batch, number);
      const int m0 = alone ? 0 : own.first, m1 = alone ? 1 : own.first + own.count;
      const size_t ld = static_cast<size_t>(tile1 - tile0) * kTile;
      float* g = scratch<float>(Scratch::kGate, ld * static_cast<size_t>(own.count));
      float* u = scratch<float>(Scratch::kUp, ld * static_cast<size_t>(own.count));
      if (!g || !u) return threads_.lack_memory();
      const uint8_t* expert = wave.data[number];
      rows_.linear.tiles[static_cast<int>(gate.format)](part(gate, expert, 0), acts, m0, m1, tile0, tile1, g, ld);
      rows_.linear.tiles[static_cast<int>(up.format)](part(up, expert, shapes_.up_at), acts, m0, m1, tile0, tile1, u, ld);
      const int columns = std::min(tile1 * kTile, gate.rows) - tile0 * kTile;
      add_bias(expert, tile0 * kTile, columns, g, ld, own.count);
      add_bias(expert, gate.rows + tile0 * kTile, columns, u, ld, own.count);
      rows_.mlp.activate(act_, g, u, ld, own.count, columns,
                         inner + static_cast<size_t>(own.first) * width + static_cast<size_t>(tile0) * kTile, width);
    });
    return !threads_.lacks_memory();
  }

  bool down(const Wave& wave, const Batch& batch, const float* inner, float* outputs) {
    const Weight& down = shapes_.down;
    const int pairs = wave.first_pair[batch.end] - wave.first_pair[batch.begin];
    Activations activations(rows_.linear, threads_, inner, pairs, down.cols, quant_linear::int8_terms(down, 1));
    if (!activations) return threads_.lack_memory(), false;
    const auto cols = static_cast<size_t>(down.rows);
    over_tiles(threads_, batch, down, SIZE_MAX / 2, [&](int number, int tile0, int tile1) {
      const Acts& acts = activations.ready();
      const Pairs own(wave, batch, number);
      float* out = outputs + static_cast<size_t>(own.first) * cols + static_cast<size_t>(tile0) * kTile;
      rows_.linear.tiles[static_cast<int>(down.format)](part(down, wave.data[number], shapes_.down_at), acts, own.first,
                                                        own.first + own.count, tile0, tile1, out, cols);
      add_bias(wave.data[number], 2 * shapes_.gate.rows + tile0 * kTile, std::min(tile1 * kTile, down.rows) - tile0 * kTile, out, cols,
               own.count);
    });
    return !threads_.lacks_memory();
  }

  // Adds biases [first, first + columns) of an expert, where it has some, to so many rows: 1 * bias + product is rounded once.
  void add_bias(const uint8_t* expert, int first, int columns, float* to, size_t ld, int count) const {
    if (!shapes_.biased) return;
    const float* bias = reinterpret_cast<const float*>(expert + shapes_.biases_at) + first;
    for (int i = 0; i < count; ++i) rows_.experts.add(1.0f, bias, to + static_cast<size_t>(i) * ld, static_cast<size_t>(columns));
  }

  // Tiles of a task whose products stay within the second-level cache.
  static size_t most_tiles(const Wave& wave, const Batch& batch) {
    int most = 1;
    for (int i = batch.begin; i < batch.end; ++i) most = std::max(most, wave.first_pair[i + 1] - wave.first_pair[i]);
    return static_cast<size_t>(std::max(1, 2048 / most));
  }

  const Rows& rows_;
  Parallel& threads_;
  const Shapes& shapes_;
  const gated_mlp::Activation act_;
  const Inputs& in_;
};

// Adds a wave's outputs to those of the tokens; the first wave begins them.
void add_outputs(const Rows& rows, Parallel& threads, const Wave& wave, const Routing& routing, const Inputs& in, size_t cols,
                 const float* outputs, float* out) {
  const auto k = static_cast<size_t>(routing.chosen);
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
      const Chosen* chosen = wave.chosen + static_cast<size_t>(t) * k;
      for (size_t i = 0; i < k; ++i)
        if (chosen[i].expert >= wave.begin && chosen[i].expert < wave.end)
          rows.experts.add(chosen[i].weight, outputs + static_cast<size_t>(chosen[i].pair) * cols, y, cols);
    }
  };
  const auto tasks = static_cast<size_t>((in.m + kTokensPerTask - 1) / kTokensPerTask);
  if (static_cast<size_t>(wave.first_pair[wave.count]) * cols > kFewFloats) return parallel_for(threads, tasks, body);
  for (size_t i = 0; i < tasks; ++i) body(i);
}

}  // namespace

int experts(const Rows& rows, Parallel& threads, const Routing& routing, const Weights& weights, gated_mlp::Activation act,
            const Inputs& in, float* out, int pairs_at_once) {
  const Shapes& shapes = weights.shapes;
  auto* chosen = scratch<Chosen>(Scratch::kChosen, static_cast<size_t>(in.m) * static_cast<size_t>(routing.chosen));
  if (!chosen) return threads.lack_memory(), 0;
  if (!route(rows, threads, routing, in, chosen)) return 0;
  Waves waves(threads, routing, weights, chosen, in.m, pairs_at_once);
  if (!waves) return threads.lack_memory(), 0;
  Computation computation(rows, threads, shapes, act, in);
  const auto cols = static_cast<size_t>(shapes.down.rows);
  while (const Wave* wave = waves.next()) {
    float* outputs = scratch<float>(Scratch::kOuter, static_cast<size_t>(wave->first_pair[wave->count]) * cols);
    if (!outputs) return threads.lack_memory(), 0;
    for (Batch batch; waves.next_batch(&batch);)
      if (!computation.run(*wave, batch, outputs)) return 0;
    if (waves.error()) break;
    add_outputs(rows, threads, *wave, routing, in, cols, outputs, out);
  }
  return waves.error();
}

}  // namespace edgedec::experts
