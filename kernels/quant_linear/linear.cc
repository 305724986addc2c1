#include "quant_linear/linear.h"

#include "common/isa.h"

namespace edgedec::quant_linear {
namespace {

constexpr size_t kTaskBytes = 64 << 10;

// The tiles that a task has a multiple of, at most `most`: for many tokens, rows take two at a time.
size_t turn_of(int tokens, size_t most) {
  if (tokens < kManyTokens || most < 2) return 1;
  return likes_streams() && most >= kStreams ? kStreams : 2;
}

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

// The products of both terms of m tokens in one pass over the weights, then their sum; false without memory.
bool two_terms(TilesFn tiles, const Weight& w, const Acts& acts, int m, int tile0, int tile1, int columns, float* out,
               size_t ldo) {
  const size_t ld = static_cast<size_t>(tile1 - tile0) * kTile;
  float* both = scratch<float>(Scratch::kTerms, ld * acts.m);
  if (!both) return false;
  tiles(w, acts, 0, acts.m, tile0, tile1, both, ld);
  for (int i = 0; i < m; ++i)
    for (int c = 0; c < columns; ++c) out[i * ldo + c] = both[i * ld + c] + both[(m + i) * ld + c];
  return true;
}

size_t groups(int m, int cols) { return static_cast<size_t>(m) * (padded_k(cols) / kGroup); }

// Groups of activations in a piece, which one thread quantises at a time. Whenever threads take pieces from their common
// counter, they wait for each other's caches as long as a dozen groups take: each thread gets one piece, and more only where
// a piece takes long beside that. Pieces begin with a line of the cache.
size_t groups_at_once(size_t groups, size_t width) {
  constexpr size_t kLeast = 9, kLong = 128, kMostPieces = 32, kLine = 64 / (2 * sizeof(int32_t));
  constexpr size_t kUsualWidth = 4;  // where it is not known
  const size_t pieces = std::max(width ? width : kUsualWidth, std::min(groups / kLong, kMostPieces));
  const size_t each = (groups + pieces - 1) / pieces;
  return each <= kLeast ? kLeast : (each + kLine - 1) / kLine * kLine;
}

// rest = x - q * scale for groups [first, last): the error of the first term.
void left_over(const float* x, const int8_t* q, const float* scale, int cols, int k, size_t first, size_t last,
               float* rest) {
  for_groups(k, first, last, [&](size_t m, int g, size_t at) {
    for (int i = 0; i < kGroup && g * kGroup + i < cols; ++i) {
      const size_t from = m * cols + g * kGroup + i;
      rest[from] = x[from] - static_cast<float>(q[at * kGroup + i]) * scale[at];
    }
  });
}

}  // namespace

Shares::Shares(const Parallel& threads, size_t tiles, size_t bytes, size_t most_tiles, int tokens)
    : tiles_(tiles), turn_(turn_of(tokens, std::min(most_tiles, tiles / (2 * std::max<size_t>(1, threads.width()))))),
      turns_((tiles + turn_ - 1) / turn_) {
  size_t least = std::max((bytes + kTaskBytes - 1) / kTaskBytes, (tiles + most_tiles - 1) / most_tiles);
  if (likes_streams() && least) {
    constexpr size_t kWhole = kStreams;
    const size_t each = std::min(std::max((tiles / least + kWhole / 2) / kWhole * kWhole, kWhole), most_tiles);
    least = (tiles + each - 1) / each;
  }
  if (turn_ > 1 && least) {
    const size_t together = std::max<size_t>(1, std::min(turns_ / least, most_tiles / turn_));
    least = (turns_ + together - 1) / together;
  }
  const size_t width = std::max<size_t>(1, threads.width());
  count_ = std::min(turns_, (least + width - 1) / width * width);
}

int int8_terms(const Weight& w, int terms) { return is_float(w.format) ? 0 : terms; }

Activations::Activations(const Row& row, const Parallel& threads, const float* x, int m, int cols, int terms)
    : row_(row), cols_(cols), groups_(terms ? groups(m, cols) : 0), at_once_(groups_at_once(groups_, threads.width())),
      acts_(), pieces_((groups_ + at_once_ - 1) / at_once_) {
  acts_.m = m, acts_.x = x;
  if (terms == 0) return;
  const int k = padded_k(cols);
  const size_t rows = static_cast<size_t>(m) * terms;
  q_ = scratch<int8_t>(Scratch::kActs, rows * k);
  scale_ = scratch<float>(Scratch::kActScales, rows * (k / 32));
  sum_ = scratch<int32_t>(Scratch::kActSums, rows * (k / 16));
  total_ = scratch<float>(Scratch::kActTotals, rows * (k / 32));
  if (terms == 2) rest_ = scratch<float>(Scratch::kRest, static_cast<size_t>(m) * cols);
  there_ = q_ && scale_ && sum_ && total_ && (terms < 2 || rest_);
  acts_ = {m * terms, k, x, q_, scale_, sum_, total_};
}

const Acts& Activations::ready() {
  pieces_.finish([&](size_t i) { quantise(i * at_once_, std::min((i + 1) * at_once_, groups_)); });
  return acts_;
}

void Activations::quantise(size_t first, size_t last) {
  quantise_term(acts_.x, first, last, 0);
  if (!rest_) return;
  left_over(acts_.x, q_, scale_, cols_, acts_.k, first, last, rest_);
  quantise_term(rest_, first, last, groups_);
}

// Groups [first, last) of x, whose results begin at group `offset`.
void Activations::quantise_term(const float* x, size_t first, size_t last, size_t offset) {
  int32_t* sum = sum_ + 2 * offset;
  float* total = total_ + offset;
  row_.quantise(x, cols_, acts_.k, first, last, q_ + offset * kGroup, scale_ + offset, sum);
  for (size_t g = first; g < last; ++g) total[g] = static_cast<float>(sum[2 * g] + sum[2 * g + 1]);
}

void linear(const Row& row, Parallel& threads, const Weight* weights, int count, const float* x, int m,
            int terms, const float* bias, const float* residual, float* out) {
  size_t ldo = 0, tiles = 0, bytes = 0;
  int most_terms = 0;
  for (int i = 0; i < count; ++i) {
    most_terms = std::max(most_terms, int8_terms(weights[i], terms));
    ldo += weights[i].rows;
    tiles += weights[i].tiles();
    bytes += weights[i].bytes();
  }
  Activations activations(row, threads, x, m, weights[0].cols, most_terms);
  if (!activations) return threads.lack_memory();
  const auto columns_of = [&](const Acts& acts, const Weight& w, int tile0, int tile1, size_t first) {
    const int columns = std::min(tile1 * kTile, w.rows) - tile0 * kTile;
    const auto of_tiles = row.tiles[static_cast<int>(w.format)];
    if (int8_terms(w, terms) < 2)
      of_tiles(w, acts, 0, m, tile0, tile1, out + first, ldo);
    else if (!two_terms(of_tiles, w, acts, m, tile0, tile1, columns, out + first, ldo))
      return threads.lack_memory();
    finish(bias ? bias + first : nullptr, residual ? residual + first : nullptr, out + first, m, columns, ldo);
  };
  const Shares shares(threads, tiles, bytes, SIZE_MAX / 2, m);
  auto body = [&](size_t task) {
    const Acts& acts = activations.ready();
    int first = static_cast<int>(shares.first(task)), last = static_cast<int>(shares.first(task + 1));
    size_t column = 0;
    for (int i = 0; i < count && last > 0; column += weights[i++].rows) {
      const int here = weights[i].tiles(), tile0 = std::max(first, 0), tile1 = std::min(last, here);
      if (tile0 < tile1) columns_of(acts, weights[i], tile0, tile1, column + static_cast<size_t>(tile0) * kTile);
      first -= here, last -= here;
    }
  };
  parallel_for(threads, shares.count(), body);
}

}  // namespace edgedec::quant_linear
