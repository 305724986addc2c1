#include "gated_mlp/gated_mlp.h"

#include <cstring>

#define EDGEDEC_ROWS "common/float_rows.inc"

namespace edgedec::gated_mlp {

#include "common/select_row.inc"

void gated_mlp(const quant_linear::Row& linear, const Row& row, Parallel& threads, const Weight& gate, const Weight& up,
               Activation act, const float* x, int m, float* out) {
  const int terms = std::max(quant_linear::int8_terms(gate, 1), quant_linear::int8_terms(up, 1));
  quant_linear::Activations activations(linear, threads, x, m, gate.cols, terms);
  if (!activations) return threads.lack_memory();
  // Many tokens: keep the products of a task within the second-level cache.
  const size_t most = static_cast<size_t>(std::max(1, 2048 / std::max(1, m)));
  const quant_linear::Shares shares(threads, static_cast<size_t>(gate.tiles()), gate.bytes(), most, m);
  auto body = [&](size_t task) {
    const Acts& acts = activations.ready();
    const int tile0 = static_cast<int>(shares.first(task)), tile1 = static_cast<int>(shares.first(task + 1));
    const size_t ld = static_cast<size_t>(tile1 - tile0) * kTile;
    float* g = scratch<float>(Scratch::kGate, ld * m);
    float* u = scratch<float>(Scratch::kUp, ld * m);
    if (!g || !u) return threads.lack_memory();
    linear.tiles[static_cast<int>(gate.format)](gate, acts, 0, m, tile0, tile1, g, ld);
    linear.tiles[static_cast<int>(up.format)](up, acts, 0, m, tile0, tile1, u, ld);
    const int columns = std::min(tile1 * kTile, gate.rows) - tile0 * kTile;
    row.activate(act, g, u, ld, m, columns, out + static_cast<size_t>(tile0) * kTile, gate.rows);
  };
  parallel_for(threads, shares.count(), body);
}

}  // namespace edgedec::gated_mlp
