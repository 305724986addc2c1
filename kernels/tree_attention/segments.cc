#include "tree_attention/segments.h"

#include <algorithm>

#include "common/array.h"

namespace edgedec::tree_attention {
namespace {

constexpr size_t kQueries = 24;  // of a block: where texts have windows, the keys of its tokens differ more, the more it has

// Tokens of one text, of a block.
struct Piece {
  size_t first, end, m0, tokens;  // the text: [first, end)
};

// Cuts the texts; false without memory.
bool cut(const Texts& texts, size_t most, Array<Piece>* pieces, size_t* longest) {
  *longest = 0;
  for (size_t i = 0; i < texts.count; ++i) {
    const auto first = static_cast<size_t>(texts.offsets[i]), end = static_cast<size_t>(texts.offsets[i + 1]);
    *longest = std::max(*longest, end - first);
    for (size_t m0 = first; m0 < end; m0 += most)
      if (!pieces->push_back({first, end, m0, std::min(most, end - m0)})) return false;
  }
  return true;
}

void set_paths(const Texts& texts, const Piece& piece, Block* b) {
  b->common_first = piece.first, b->common_end = piece.end;
  for (size_t t = 0; t < piece.tokens; ++t) {
    const size_t m = piece.m0 + t;
    const size_t first = m - piece.first > texts.before ? m - texts.before : piece.first;
    const size_t end = piece.end - m - 1 > texts.after ? m + texts.after + 1 : piece.end;
    b->paths[t] = {first, end, nullptr, texts.tokens()};
    b->common_first = std::max(b->common_first, first), b->common_end = std::min(b->common_end, end);
  }
}

}  // namespace

void attend_texts(const Row& row, Parallel& threads, const Config& config, const Cache& cache, const Texts& texts,
                  const float* queries, float* out) {
  const size_t group = config.heads / config.kv_heads, step = std::min(group, kQueries);
  const size_t per_kv_head = (group + step - 1) / step, units = per_kv_head * config.kv_heads;
  Array<Piece> pieces;
  size_t longest;
  if (!cut(texts, kQueries / step, &pieces, &longest)) return threads.lack_memory();
  const size_t stride = (longest + 15) / 16 * 16;
  auto task = [&](size_t i) {
    auto* room = scratch<float>(Scratch::kScores, kQueries * (stride + 1));
    if (!room) return threads.lack_memory();
    // Blocks of a head follow each other, so that its keys stay in a core's cache.
    const Piece& piece = pieces[i % pieces.size()];
    const size_t unit = i / pieces.size(), kv_head = unit / per_kv_head;
    Block b{};
    b.m0 = piece.m0, b.tokens = piece.tokens, b.stride = stride;
    b.h0 = kv_head * group + unit % per_kv_head * step;
    b.h1 = std::min(b.h0 + step, (kv_head + 1) * group);
    b.scores = room, b.sums = room + kQueries * stride;
    set_paths(texts, piece, &b);
    row.attend(config, cache, b, queries, out);
  };
  parallel_for(threads, pieces.size() * units, task);
}

}  // namespace edgedec::tree_attention
