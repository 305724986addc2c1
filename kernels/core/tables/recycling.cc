#include "core/tables/recycling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "core/tables/tree.h"

namespace edgedec::draft {
namespace {

constexpr int32_t kNone = -1;
constexpr int kWidth = Recycling::kWidth, kLevels = Recycling::kLevels;

// First estimate of how often an answer is right, as a fraction of its probability: after one token, after two; and the
// factor for answers from another sequence.
constexpr double kTrust[2] = {0.35, 0.5}, kFadedRate = 0.6;
constexpr double kPrior = 8.0;          // observations that the first estimate counts for
constexpr double kMemory = 400.0;       // observations that count, at most, since text changes
constexpr uint8_t kSeen = kLevels / 2;  // level of a token that followed once in a prompt

constexpr uint32_t kMostBits = 40;     // base-2 logarithm of the entries of a table, at most

// Saved form: the number of bits and kWidth, then all tags, all tokens, all levels, all marks.
constexpr size_t kHeader = 2 * sizeof(uint32_t);
constexpr size_t kSavedEntry = sizeof(uint32_t) + kWidth * sizeof(int32_t) + kWidth + 1;

// Hash of a context of two tokens, or of one token when `before` is kNone.
uint64_t key_of(int32_t before, int32_t last) {
  uint64_t mixed = static_cast<uint64_t>(int64_t{before} + 2) * 0x9E3779B97F4A7C15u +
                   static_cast<uint64_t>(int64_t{last}) * 0xC2B2AE3D27D4EB4Fu;
  mixed ^= mixed >> 29;
  return mixed * 0xBF58476D1CE4E5B9u;
}

uint32_t tag_of(uint64_t key) { return static_cast<uint32_t>(key) | 1; }

// std::exp is enough, since drafts may differ between C libraries. NaN counts as improbable.
uint8_t level_of(float logit, const Answers& answers, float logsumexp) {
  const double level = std::exp(double{logit} / answers.temperature - double{logsumexp}) * kLevels;
  return level >= kLevels ? kLevels - 1 : level > 0 ? static_cast<uint8_t>(level) : 0;
}

}  // namespace

Recycling::Recycling(int bits) : bits_(bits), table_(size_t{1} << bits) {
  for (int cell = 0; cell < kCells; ++cell) {
    const double chance = (cell / 2 % kLevels + 0.5) / kLevels;
    const bool fresh = cell / (2 * kLevels) % 2, of_two = cell >= kCells / 2;
    rates_[cell] = kTrust[of_two] * (fresh ? chance : kFadedRate * chance);
  }
  std::fill(seen_, seen_ + kCells, kPrior);
}

void Recycling::begin(const int32_t* tokens, size_t count, size_t kept) {
  heard_ = 0;
  ++mark_;
  for (size_t i = std::max<size_t>(kept, 1); i < count; ++i) followed(tokens[i - 1], tokens[i]);
  recent_ = {count > 1 ? tokens[count - 2] : kNone, count ? tokens[count - 1] : kNone};
}

void Recycling::learn(size_t nodes, const int32_t* tokens, const int32_t* parents, const Answers& answers) {
  heard_ = 0;
  if (answers.rows != nodes + 1 || answers.columns < kWidth) return;
  for (size_t row = 0; row < std::min<size_t>(answers.rows, kMostNodes + 1); ++row) {
    Lesson& lesson = lessons_[heard_++];
    lesson.context = recent_;
    if (row > 0) {
      const int32_t parent = parents[row - 1];
      const bool drafted = parent >= 0 && static_cast<size_t>(parent) < row - 1;
      lesson.context = {drafted ? tokens[parent] : recent_.last, tokens[row - 1]};
    }
    std::copy_n(answers.ids + row * answers.columns, kWidth, lesson.tokens);
    for (int i = 0; i < kWidth; ++i)
      lesson.levels[i] = level_of(answers.logits[row * answers.columns + i], answers, answers.logsumexp[row]);
  }
}

// Scores the answers known before this round, then stores those of the round.
void Recycling::commit(const int32_t* tokens, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Answer found[kWidth];
    const int answered = this->answers(recent_, found);
    for (int a = 0; a < answered; ++a) observe(found[a].cell, found[a].token == tokens[i]);
    recent_ = {recent_.last, tokens[i]};
  }
  for (const Lesson* lesson = lessons_; lesson != lessons_ + heard_; ++lesson) {
    const auto& [before, last] = lesson->context;
    if (last != kNone) store({kNone, last}, lesson->tokens, lesson->levels);
    if (before != kNone) store({before, last}, lesson->tokens, lesson->levels);
  }
  heard_ = 0;
}

int Recycling::propose(int64_t limit, double floor, const Tree& tree) const {
  const auto next = [this](const Context& context, const auto& put) {
    Answer found[kWidth];
    const int count = answers(context, found);
    for (int a = 0; a < count; ++a) put(found[a].token, rates_[found[a].cell], Context{context.last, found[a].token});
  };
  return best_first<kWidth * kMostNodes>(recent_, limit, floor, next, tree);
}

const Recycling::Entry* Recycling::find(const Context& context) const {
  const uint64_t key = key_of(context.before, context.last);
  const Entry& entry = table_[index_of(key)];
  return entry.tag == tag_of(key) ? &entry : nullptr;
}

void Recycling::store(const Context& context, const int32_t* tokens, const uint8_t* levels) {
  const uint64_t key = key_of(context.before, context.last);
  Entry& entry = table_[index_of(key)];
  entry.tag = tag_of(key);
  std::copy_n(tokens, kWidth, entry.tokens);
  std::copy_n(levels, kWidth, entry.levels);
  entry.mark = mark_;
}

// Puts `successor` before the known answers to `token`.
void Recycling::followed(int32_t token, int32_t successor) {
  int32_t tokens[kWidth] = {successor, kNone, kNone, kNone};
  uint8_t levels[kWidth] = {kSeen};
  if (const Entry* known = find({kNone, token})) {
    if (known->tokens[0] == successor && known->mark == mark_) return;
    for (int i = 0, at = 1; i < kWidth && at < kWidth; ++i) {
      if (known->tokens[i] == successor) continue;
      tokens[at] = known->tokens[i];
      levels[at++] = known->levels[i];
    }
  }
  store({kNone, token}, tokens, levels);
}

// The answers after the last two tokens, or else after the last one, each with the cell of its rate.
int Recycling::answers(const Context& context, Answer* found) const {
  const Entry* entry = context.before == kNone ? nullptr : find(context);
  int cell = kCells / 2;
  if (!entry) {
    entry = context.last == kNone ? nullptr : find({kNone, context.last});
    cell = 0;
  }
  if (!entry) return 0;
  if (entry->mark == mark_) cell += 2 * kLevels;
  int count = 0;
  for (int i = 0; i < kWidth; ++i)
    if (entry->tokens[i] != kNone) found[count++] = {entry->tokens[i], cell + 2 * entry->levels[i] + (i > 0)};
  return count;
}

void Recycling::observe(int cell, bool right) {
  seen_[cell] = std::min(seen_[cell] + 1.0, kMemory);
  rates_[cell] += ((right ? 1.0 : 0.0) - rates_[cell]) / seen_[cell];
}

size_t Recycling::saved_size() const { return kHeader + table_.size() * kSavedEntry; }

void Recycling::save(uint8_t* out) const {
  const auto write = [&out](const void* from, size_t size) {
    std::memcpy(out, from, size);
    out += size;
  };
  const uint32_t header[2] = {static_cast<uint32_t>(bits_), kWidth};
  write(header, sizeof header);
  for (const Entry& entry : table_) write(&entry.tag, sizeof entry.tag);
  for (const Entry& entry : table_) write(entry.tokens, sizeof entry.tokens);
  for (const Entry& entry : table_) write(entry.levels, sizeof entry.levels);
  for (const Entry& entry : table_) write(&entry.mark, sizeof entry.mark);
}

// Also reads what a larger table saved: a place is the first bits of a context's hash, so neighbours of the larger table share
// one here, and of their answers the surest stay.
Drafter::Restored Recycling::restore(const uint8_t* data, size_t size, int64_t vocab) {
  uint32_t header[2];
  if (size < kHeader) return Restored::kSize;
  std::memcpy(header, data, sizeof header);
  const auto [bits, width] = header;
  if (width != kWidth || bits > kMostBits || bits < static_cast<uint32_t>(bits_)) return Restored::kSize;
  const size_t places = size_t{1} << bits, per = places / table_.size();
  if (size != kHeader + places * kSavedEntry) return Restored::kSize;
  const uint8_t *tags = data + kHeader, *tokens = tags + places * sizeof(uint32_t);
  const uint8_t *levels = tokens + places * kWidth * sizeof(int32_t), *marks = levels + places * kWidth;
  const auto tag = [&](size_t place) {
    uint32_t found;
    std::memcpy(&found, tags + place * sizeof found, sizeof found);
    return found;
  };
  const auto surest = [&](size_t first) {
    const auto surety = [&](size_t place) { return tag(place) ? 1 + levels[place * kWidth] : 0; };
    size_t best = first;
    for (size_t place = first + 1; place < first + per; ++place)
      if (surety(place) > surety(best)) best = place;
    return best;
  };
  for (size_t i = 0; i < table_.size(); ++i) {
    const size_t from = surest(i * per);
    const uint8_t* level = levels + from * kWidth;
    for (int answer = 0; answer < kWidth; ++answer) {
      int32_t token;
      std::memcpy(&token, tokens + (from * kWidth + static_cast<size_t>(answer)) * sizeof token, sizeof token);
      if (token < kNone || token >= vocab) return Restored::kToken;
      if (level[answer] >= kLevels) return Restored::kLevel;
    }
  }
  for (size_t i = 0; i < table_.size(); ++i) {
    const size_t from = surest(i * per);
    Entry& entry = table_[i];
    entry.tag = tag(from);
    std::memcpy(entry.tokens, tokens + from * sizeof entry.tokens, sizeof entry.tokens);
    std::memcpy(entry.levels, levels + from * sizeof entry.levels, sizeof entry.levels);
    entry.mark = marks[from];
  }
  return Restored::kDone;
}

Drafter* make_recycling(int64_t memory) {
  uint32_t bits = 0;
  while (bits < kMostBits && static_cast<int64_t>(sizeof(Recycling::Entry)) << (bits + 1) <= memory) ++bits;
  auto* recycling = new (std::nothrow) Recycling(static_cast<int>(bits));
  if (recycling && !*recycling) delete recycling, recycling = nullptr;
  return recycling;
}

}  // namespace edgedec::draft
