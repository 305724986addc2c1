// The end of HeadTopK for a device that computed the block sums, the k largest logits and their two-term logits: joins,
// refines and writes on this CPU, so that results have the bits of the whole op.
#include "head_topk/finish.h"

#include <cmath>
#include <cstring>

#include "common/isa.h"
#include "head_topk/refine.h"

using namespace edgedec;
using namespace edgedec::head_topk;

namespace {

constexpr uint32_t kNone = 0xffffffffu;

struct Found {  // r rows
  const BlockSums* sums;  // [r][blocks]
  const uint32_t* candidates;  // [r][k][2]: id, the bits of its logit; kNone from the first one missing on
  const float* fine;  // [r][k]: two-term logits, or null
};

// Reads the candidates of a row; false when they are no entries of the vocabulary, no numbers, or not the best first.
bool read(const uint32_t* from, int k, int rows, Best& best) {
  best.count = 0;
  for (int i = 0; i < k && from[2 * i] != kNone; ++i) {
    float value;
    std::memcpy(&value, from + 2 * i + 1, 4);
    if (from[2 * i] >= static_cast<uint32_t>(rows) || std::isnan(value)) return false;
    best.all[best.count] = {value, static_cast<int32_t>(from[2 * i])};
    if (best.count && !better(best.all[best.count - 1], best.all[best.count])) return false;
    ++best.count;
  }
  return true;
}

void refine(const Row& row, const Best& best, const float* fine, int others, Scale scale, RowSums& sums,
            float* logits) {
  float value[kBlock];
  const float floor = floor_of(best, others);
  for (size_t i = 0; i < best.count; ++i)
    value[i] = settled(row, best.all[i].value, fine[i], floor, scale.softcap);
  replace(row, best, value, others, scale.inverse, sums);
  if (!logits) return;
  for (const Candidate& c : best) logits[c.id] = c.value;
}

bool finish(const Row& row, const Found& found, int r, int rows, int count, int k, Scale scale, const Result& out) {
  const int blocks = (count + kBlock - 1) / kBlock;
  Candidate room[kBlock];
  for (int i = 0; i < r; ++i) {
    const size_t at = static_cast<size_t>(i) * k;
    const BlockSums* of_row = found.sums + static_cast<size_t>(i) * blocks;
    Best best{room, 0};
    if (!read(found.candidates + 2 * at, k, rows, best) || best.count > static_cast<size_t>(count)) return false;
    RowSums sums = join(row, blocks, scale.inverse, [&](int b) -> const BlockSums& { return of_row[b]; });
    float* logits = out.logits ? out.logits + static_cast<size_t>(i) * rows : nullptr;
    if (found.fine) refine(row, best, found.fine + at, count - static_cast<int>(best.count), scale, sums, logits);
    write(best, sums, scale.inverse, k, out, i);
  }
  return true;
}

}  // namespace

int edgedec_head_finish(const char* name, const float* sums, const uint32_t* candidates, const float* fine, int r, int rows,
                        int count, int k, float softcap, float temperature, float* values, int32_t* ids,
                        float* logsumexp, float* entropy, float* logits) {
  static_assert(sizeof(BlockSums) == 3 * sizeof(float), "the device writes three floats a block");
  const Row* row = cpu_has(name) ? find_row(float_row(name)) : nullptr;
  if (!row) return 1;
  const float inverse = 1.0f / temperature;
  if (r < 0 || count < 1 || count > rows || k < 1 || k > kBlock || !(softcap >= 0.0f)) return 2;
  if (!(inverse > 0.0f && std::isfinite(inverse))) return 2;
  const Found found{reinterpret_cast<const BlockSums*>(sums), candidates, fine};
  return finish(*row, found, r, rows, count, k, {softcap, inverse}, {values, ids, logsumexp, entropy, logits}) ? 0 : 2;
}
