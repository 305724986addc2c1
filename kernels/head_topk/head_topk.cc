#include "head_topk/refine.h"

#include <atomic>
#include <cmath>
#include <cstring>

#define EDGEDEC_ROWS "common/float_rows.inc"

namespace edgedec::head_topk {

#include "common/select_row.inc"

namespace {

constexpr int kRowsAtOnce = 16;  // rows that share one pass over the table
constexpr float kLowest = -__builtin_inff();

// Moves the k best of all to the front; returns how many there are.
size_t keep_best(const Best& all, size_t k) {
  if (all.count <= k) return all.count;
  std::nth_element(all.begin(), all.begin() + k, all.end(), better);
  return k;
}

// The contribution of one block of the vocabulary to one row.
struct Part {
  BlockSums sums;
  size_t count;  // of its best
};

struct Pass {
  const quant_linear::Row& linear;
  const Row& row;
  const Weight& table;
  const Acts& acts;
  const int64_t* keep;
  int count;  // vocabulary entries that take part
  int k;
  Scale scale;
  float* logits;  // [rows][table.rows] of this pass, or null
  Part* parts;  // [block][row]
  Candidate* best;  // [block][row][k]
  std::atomic<float>* bound;  // per row: at least k logits seen so far are not below it

  Best best_of(size_t part) const { return {best + part * static_cast<size_t>(k), parts[part].count}; }
};

// Further needs of a task.
struct Room {
  float* logits;     // [kRowsAtOnce][kBlock]
  float* tile;       // [rows][kTile], for kept ids
  Candidate* found;  // [kBlock]

  explicit operator bool() const { return logits && tile && found; }
};

Room room_of_task(int rows) {
  return {scratch<float>(Scratch::kLogits, static_cast<size_t>(kRowsAtOnce) * kBlock),
          scratch<float>(Scratch::kKept, static_cast<size_t>(rows) * kTile),
          scratch<Candidate>(Scratch::kFound, kBlock)};
}

// How many whole tiles the first of `n` ascending ids begin, one behind the other.
int whole_tiles(const int64_t* keep, int n) {
  if (keep[0] % kTile) return 0;
  int found = 0;
  while ((found + 1) * kTile <= n && keep[(found + 1) * kTile - 1] - keep[0] == (found + 1) * kTile - 1) ++found;
  return found;
}

// Logits of entries [first, first + n) for the rows of the pass into room.logits.
void block_logits(const Pass& p, int first, int n, const Room& room) {
  float *buffer = room.logits, *tile_out = room.tile;
  const auto tiles = p.linear.tiles[static_cast<int>(p.table.format)];
  if (!p.keep) {
    tiles(p.table, p.acts, 0, p.acts.m, first / kTile, (first + n + kTile - 1) / kTile, buffer, kBlock);
    return;
  }
  // Kept ids are sorted, so each tile that holds any is computed once; runs of whole tiles without a copy.
  int64_t resident = -1;
  for (int i = 0; i < n; ++i) {
    const int64_t id = p.keep[first + i], tile = id / kTile;
    if (const int whole = whole_tiles(p.keep + first + i, n - i)) {
      tiles(p.table, p.acts, 0, p.acts.m, static_cast<int>(tile), static_cast<int>(tile) + whole, buffer + i, kBlock);
      i += whole * kTile - 1;
      continue;
    }
    if (tile != resident)
      tiles(p.table, p.acts, 0, p.acts.m, static_cast<int>(tile), static_cast<int>(tile) + 1, tile_out, kTile);
    resident = tile;
    for (int m = 0; m < p.acts.m; ++m) buffer[m * kBlock + i] = tile_out[m * kTile + id % kTile];
  }
}

void raise(std::atomic<float>& bound, float value) {
  float seen = bound.load(std::memory_order_relaxed);
  while (value > seen && !bound.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void reduce_block(const Pass& p, int first, int n, int m, size_t block, const Room& room) {
  const float* logits = room.logits + m * kBlock;
  const size_t at_part = block * static_cast<size_t>(p.acts.m) + static_cast<size_t>(m);
  Part& part = p.parts[at_part];
  part.sums = p.row.sums(logits, n, p.scale.inverse);
  int32_t found[kBlock];
  const int hits = p.row.above(logits, n, p.bound[m].load(std::memory_order_relaxed), found);
  Best all{room.found, 0};
  for (int i = 0; i < hits; ++i) {
    const int at = first + found[i];
    if (std::isnan(logits[found[i]])) continue;  // NaN has no order, and sorting it would run past the array
    all.all[all.count++] = {logits[found[i]], p.keep ? static_cast<int32_t>(p.keep[at]) : at};
  }
  part.count = keep_best(all, static_cast<size_t>(p.k));
  const Best best = p.best_of(at_part);
  std::copy_n(all.all, part.count, best.all);
  if (part.count == static_cast<size_t>(p.k))
    raise(p.bound[m], std::min_element(best.begin(), best.end(), [](auto& a, auto& b) {
                        return a.value < b.value;
                      })->value);
}

void copy_logits(const Pass& p, int first, int n, const float* buffer) {
  for (int m = 0; m < p.acts.m; ++m) {
    float* to = p.logits + static_cast<size_t>(m) * p.table.rows;
    for (int i = 0; i < n; ++i) to[p.keep ? p.keep[first + i] : first + i] = buffer[m * kBlock + i];
  }
}

// Gathers the best of all blocks of one row; `best` becomes its k largest logits, in any order.
void gather(const Pass& p, int blocks, int m, Best& best) {
  best.count = 0;
  for (int b = 0; b < blocks; ++b) {
    const Best part = p.best_of(static_cast<size_t>(b) * p.acts.m + m);
    std::copy_n(part.all, part.count, best.end());
    best.count += part.count;
  }
  best.count = keep_best(best, static_cast<size_t>(p.k));
}

void refine(const Pass& p, Parallel& threads, const Acts& fine, int m, const Best& best, RowSums& sums) {
  std::sort(best.begin(), best.end(), better);  // the sums must not depend on the order in which threads found them
  const int others = p.count - static_cast<int>(best.count);
  const float floor = floor_of(best, others);
  float* value = scratch<float>(Scratch::kFine, best.count);
  if (!value) return threads.lack_memory();
  constexpr size_t kAtOnce = 8;
  auto body = [&](size_t task) {
    for (size_t i = task * kAtOnce; i < std::min(best.count, (task + 1) * kAtOnce); ++i) {
      const float l = two_term_logit(p.linear, p.table, fine, m, best.all[i].id);
      value[i] = settled(p.row, best.all[i].value, l, floor, p.scale.softcap);
    }
  };
  parallel_for(threads, (best.count + kAtOnce - 1) / kAtOnce, body);
  replace(p.row, best, value, others, p.scale.inverse, sums);
  if (!p.logits) return;
  for (const Candidate& c : best) p.logits[static_cast<size_t>(m) * p.table.rows + c.id] = c.value;
}

}  // namespace

void head_topk(const quant_linear::Row& linear, const Row& row, Parallel& threads, const Weight& table,
               const float* x, int r, bool refined, Scale scale, const int64_t* keep, int keep_count, int k,
               const Result& out) {
  const int count = keep ? keep_count : table.rows, blocks = (count + kBlock - 1) / kBlock;
  const int terms = quant_linear::int8_terms(table, refined ? 2 : 1);
  const size_t most = static_cast<size_t>(blocks) * std::min(r, kRowsAtOnce), width = static_cast<size_t>(k);
  auto* parts = scratch<Part>(Scratch::kParts, most);
  auto* part_best = scratch<Candidate>(Scratch::kPartBest, most * width);
  Best best{scratch<Candidate>(Scratch::kBest, static_cast<size_t>(blocks) * width), 0};
  if (!parts || !part_best || !best.all) return threads.lack_memory();
  for (int r0 = 0; r0 < r; r0 += kRowsAtOnce) {
    const int m = std::min(kRowsAtOnce, r - r0);
    const float* rows = x + static_cast<size_t>(r0) * table.cols;
    quant_linear::Activations activations(linear, threads, rows, m, table.cols, terms);
    if (!activations) return threads.lack_memory();
    const Acts& fine = activations.acts();
    Acts acts = fine;
    acts.m = m;
    float* logits = out.logits ? out.logits + static_cast<size_t>(r0) * table.rows : nullptr;
    if (logits && keep) std::fill(logits, logits + static_cast<size_t>(m) * table.rows, kLowest);
    std::atomic<float> bound[kRowsAtOnce];
    for (auto& b : bound) b.store(kLowest, std::memory_order_relaxed);
    const Pass pass{linear, row, table, acts, keep, count, k, scale, logits, parts, part_best, bound};
    auto body = [&](size_t block) {
      activations.ready();
      const int first = static_cast<int>(block) * kBlock, n = std::min(kBlock, count - first);
      const Room room = room_of_task(m);
      if (!room) return threads.lack_memory();
      float* buffer = room.logits;
      block_logits(pass, first, n, room);
      for (int i = 0; i < m && scale.softcap > 0.0f; ++i)
        row.softcap(buffer + i * kBlock, static_cast<size_t>(n), scale.softcap);
      for (int i = 0; i < m; ++i) reduce_block(pass, first, n, i, block, room);
      if (logits) copy_logits(pass, first, n, buffer);
    };
    parallel_for(threads, static_cast<size_t>(blocks), body);
    if (threads.lacks_memory()) return;
    for (int i = 0; i < m; ++i) {
      RowSums sums = join(row, blocks, scale.inverse, [&](int b) -> const BlockSums& {
        return parts[static_cast<size_t>(b) * m + i].sums;
      });
      gather(pass, blocks, i, best);
      if (terms == 2) refine(pass, threads, fine, i, best, sums);
      write(best, sums, scale.inverse, k, out, r0 + i);
    }
  }
}

}  // namespace edgedec::head_topk
