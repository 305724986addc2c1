#include "quant_linear/linear.h"

namespace edgedec::quant_linear {
namespace {

constexpr size_t kTaskBytes = 64 << 10;

struct Task {
  int weight, tile0, tile1;
};

void finish(const float* bias, const float* residual, float* out, int m, int columns, size_t ldo) {
  for (int i = 0; i < m; ++i, out += ldo) {
    if (bias)
      for (int c = 0; c < columns; ++c) out[c] += bias[c];
    if (residual) {
      for (int c = 0; c < columns; ++c) out[c] += residual[c];
      residual += ldo;
    }
  }
}

}  // namespace

int tiles_per_task(const Weight& w) {
  return std::max(1, static_cast<int>(kTaskBytes / std::max<size_t>(1, w.tile_bytes())));
}

Acts quantise(const Row& row, Parallel& threads, const float* x, int m, int cols) {
  const int k = padded_k(cols);
  const size_t rows = static_cast<size_t>(m);
  int8_t* q = scratch<int8_t>(Scratch::kActs, rows * k);
  float* scale = scratch<float>(Scratch::kActScales, rows * (k / 32));
  int32_t* sum = scratch<int32_t>(Scratch::kActSums, rows * (k / 16));
  constexpr int kRows = 8;  // one token is quicker to quantise than to hand over
  auto body = [&](size_t i) {
    const int m0 = static_cast<int>(i) * kRows;
    row.quantise(x, cols, m0, std::min(m, m0 + kRows), k, q, scale, sum);
  };
  parallel_for(threads, (rows + kRows - 1) / kRows, body);
  return {m, k, q, scale, sum};
}

void linear(const Row& row, Parallel& threads, const Weight* weights, int count, const float* x, int m,
            const float* bias, const float* residual, float* out) {
  const Acts acts = quantise(row, threads, x, m, weights[0].cols);
  size_t ldo = 0, tasks = 0;
  for (int i = 0; i < count; ++i) {
    ldo += weights[i].rows;
    tasks += (weights[i].tiles() + tiles_per_task(weights[i]) - 1) / tiles_per_task(weights[i]);
  }
  auto body = [&](size_t task) {
    size_t column = 0;
    for (int i = 0; i < count; column += weights[i++].rows) {
      const Weight& w = weights[i];
      const int step = tiles_per_task(w);
      const size_t here = (w.tiles() + step - 1) / step;
      if (task >= here) {
        task -= here;
        continue;
      }
      const int tile0 = static_cast<int>(task) * step, tile1 = std::min(w.tiles(), tile0 + step);
      const size_t first = column + static_cast<size_t>(tile0) * kTile;
      const int columns = std::min(tile1 * kTile, w.rows) - tile0 * kTile;
      row.tiles[static_cast<int>(w.format)](w, acts, 0, m, tile0, tile1, out + first, ldo);
      finish(bias ? bias + first : nullptr, residual ? residual + first : nullptr, out + first, m, columns, ldo);
      return;
    }
  };
  parallel_for(threads, tasks, body);
}

}  // namespace edgedec::quant_linear
