#include "quant_linear/linear.h"

namespace edgedec::quant_linear {
namespace {

constexpr size_t kTaskBytes = 64 << 10;

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

// The products of both terms of m tokens in one pass over the weights, then their sum.
void two_terms(TilesFn tiles, const Weight& w, const Acts& acts, int m, int tile0, int tile1, int columns, float* out,
               size_t ldo) {
  const size_t ld = static_cast<size_t>(tile1 - tile0) * kTile;
  float* both = scratch<float>(Scratch::kTerms, ld * acts.m);
  tiles(w, acts, 0, acts.m, tile0, tile1, both, ld);
  for (int i = 0; i < m; ++i)
    for (int c = 0; c < columns; ++c) out[i * ldo + c] = both[i * ld + c] + both[(m + i) * ld + c];
}

// rest = x - q * scale, the part of row r that its first term misses.
void left_over(const float* x, const int8_t* q, const float* scale, int r, int cols, int k, float* rest) {
  const size_t row = static_cast<size_t>(r);
  for (int g = 0; g * kGroup < cols; ++g) {
    const float a = scale[row * (k / kGroup) + g];
    for (int i = g * kGroup; i < cols && i < (g + 1) * kGroup; ++i)
      rest[row * cols + i] = x[row * cols + i] - static_cast<float>(q[row * k + i]) * a;
  }
}

}  // namespace

int tiles_per_task(const Weight& w) {
  return std::max(1, static_cast<int>(kTaskBytes / std::max<size_t>(1, w.tile_bytes())));
}

int int8_terms(const Weight& w, int terms) { return is_float(w.format) ? 0 : terms; }

Acts quantise(const Row& row, Parallel& threads, const float* x, int m, int cols, int terms) {
  if (terms == 0) return {m, 0, x, nullptr, nullptr, nullptr};
  const int k = padded_k(cols);
  const size_t rows = static_cast<size_t>(m) * terms;
  int8_t* q = scratch<int8_t>(Scratch::kActs, rows * k);
  float* scale = scratch<float>(Scratch::kActScales, rows * (k / 32));
  int32_t* sum = scratch<int32_t>(Scratch::kActSums, rows * (k / 16));
  float* rest = terms == 2 ? scratch<float>(Scratch::kRest, static_cast<size_t>(m) * cols) : nullptr;
  constexpr int kRows = 8;  // one token is quicker to quantise than to hand over
  auto body = [&](size_t i) {
    const int m0 = static_cast<int>(i) * kRows, m1 = std::min(m, m0 + kRows);
    row.quantise(x, cols, m0, m1, k, q, scale, sum);
    if (!rest) return;
    for (int r = m0; r < m1; ++r) left_over(x, q, scale, r, cols, k, rest);
    const size_t second = static_cast<size_t>(m);
    row.quantise(rest, cols, m0, m1, k, q + second * k, scale + second * (k / 32), sum + second * (k / 16));
  };
  parallel_for(threads, static_cast<size_t>((m + kRows - 1) / kRows), body);
  return {m * terms, k, x, q, scale, sum};
}

void linear(const Row& row, Parallel& threads, const Weight* weights, int count, const float* x, int m,
            int terms, const float* bias, const float* residual, float* out) {
  size_t ldo = 0, tasks = 0;
  int most_terms = 0;
  for (int i = 0; i < count; ++i) {
    most_terms = std::max(most_terms, int8_terms(weights[i], terms));
    ldo += weights[i].rows;
    tasks += (weights[i].tiles() + tiles_per_task(weights[i]) - 1) / tiles_per_task(weights[i]);
  }
  const Acts acts = quantise(row, threads, x, m, weights[0].cols, most_terms);
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
      const auto tiles = row.tiles[static_cast<int>(w.format)];
      if (int8_terms(w, terms) < 2)
        tiles(w, acts, 0, m, tile0, tile1, out + first, ldo);
      else
        two_terms(tiles, w, acts, m, tile0, tile1, columns, out + first, ldo);
      finish(bias ? bias + first : nullptr, residual ? residual + first : nullptr, out + first, m, columns, ldo);
      return;
    }
  };
  parallel_for(threads, tasks, body);
}

}  // namespace edgedec::quant_linear
