#include "text/merger.h"

#include <algorithm>

namespace edgedec::text {
namespace {

constexpr size_t kShort = 48;  // up to so many symbols a scan for the best pair is quicker than a heap

}  // namespace

// The bytes of the character at the start of text, and its code point. Bytes that are not UTF-8 count alone.
size_t character(const char* text, size_t length, uint32_t* code) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t lead = byte(0);
  const size_t wanted = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 0;
  *code = lead;
  if (wanted == 1) return 1;
  *code = kNone;
  if (!wanted || wanted > length) return 1;
  uint32_t found = lead & (0x7Fu >> wanted);
  for (size_t at = 1; at < wanted; ++at) {
    if ((byte(at) & 0xC0) != 0x80) return 1;
    found = found << 6 | (byte(at) & 0x3Fu);
  }
  *code = found;
  return wanted;
}

Merger::Merger(const Table& table) : table_(table) {
  for (uint32_t code = 0; code < 128; ++code) ascii_[code] = char_token(code);
}

bool Merger::merge(const char* text, size_t length) {
  ids_.clear();
  if (table_.flags() & kWholeFirst) {
    const int64_t whole = find(table_, text, length);
    if (whole == kDamaged) return false;
    if (whole >= 0 && table_.kind(static_cast<uint32_t>(whole)) & kInVocabulary)
      return put(static_cast<uint32_t>(whole));
  }
  if (!symbols(text, length)) return false;
  return ids_.size() <= kShort ? scan() : heap();
}

// The token of one character, or kNone.
uint32_t Merger::char_token(uint32_t code) const {
  const uint32_t* chars = table_.words(kChars);
  uint64_t low = 0, high = table_.count(kChars);
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    if (chars[2 * middle] < code) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < table_.count(kChars) && chars[2 * low] == code ? chars[2 * low + 1] : kNone;
}

// Writes the symbols that merging begins with: characters, bytes of unknown ones, or the unknown token.
bool Merger::symbols(const char* text, size_t length) {
  bool pending = false;  // a fused unknown token
  for (size_t at = 0; at < length;) {
    uint32_t code;
    const size_t step = character(text + at, length - at, &code);
    const uint32_t id = code < 128 ? ascii_[code] : char_token(code);
    if (id != kNone) {
      pending = false;
      if (!put(id)) return false;
    } else if (table_.flags() & kByteFallback) {
      for (size_t i = 0; i < step; ++i) {
        if (!put(table_.words(kByteTokens)[static_cast<uint8_t>(text[at + i])])) return false;
      }
    } else if (table_.unknown() != kNone) {
      if ((!pending || !(table_.flags() & kFuseUnknown)) && !put(table_.unknown())) return false;
      pending = true;
    }
    at += step;
  }
  return std::all_of(ids_.begin(), ids_.end(), [&](uint32_t id) { return table_.known(id); });
}

// Joins two symbols; false where the table is damaged. The pairs of a text recur, so some are remembered.
bool Merger::joined(uint32_t left, uint32_t right, Join* join) {
  Known& known = known_[(left * 0x9E3779B1u ^ right * 0x85EBCA77u) >> (32 - kKnownBits)];
  if (known.left != left || known.right != right) {
    known.left = kNone;
    if (!look_up(left, right, &known.join)) return false;
    known.left = left;
    known.right = right;
  }
  *join = known.join;
  return true;
}

bool Merger::look_up(uint32_t left, uint32_t right, Join* join) const {
  const uint32_t start = table_.words(kRows)[left], end = table_.words(kRows)[left + 1];
  if (start > end || end > table_.count(kMerges)) return false;
  const uint32_t* merges = table_.words(kMerges);
  size_t low = start, high = end;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (merges[3 * middle] < right) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *join = {};
  if (low < end && merges[3 * low] == right) *join = {merges[3 * low + 1], merges[3 * low + 2]};
  return join->rank == kNone || table_.known(join->id);
}

// Merges a short piece: looks through all pairs for the best one.
bool Merger::scan() {
  if (!there(joins_.resize(ids_.size()))) return false;
  for (size_t at = 0; at + 1 < ids_.size(); ++at) {
    if (!joined(ids_[at], ids_[at + 1], &joins_[at])) return false;
  }
  for (size_t left = ids_.size(); left > 1; --left) {
    Join* const last = joins_.begin() + (left - 1);
    Join* const best = std::min_element(joins_.begin(), last, [](Join a, Join b) { return a.rank < b.rank; });
    if (best->rank == kNone) break;
    const size_t at = static_cast<size_t>(best - joins_.begin());
    ids_[at] = best->id;
    ids_.erase(ids_.begin() + at + 1);
    joins_.erase(best);
    if (at > 0 && !joined(ids_[at - 1], ids_[at], &joins_[at - 1])) return false;
    if (at + 1 < ids_.size() && !joined(ids_[at], ids_[at + 1], &joins_[at])) return false;
  }
  return true;
}

// Merges a long piece: a heap has the pairs, and a list the symbols. Pairs that changed meanwhile are skipped.
bool Merger::heap() {
  const uint32_t count = static_cast<uint32_t>(ids_.size());
  if (!there(joins_.resize(count) && next_.resize(count + 1) && before_.resize(count + 1))) return false;
  std::fill(joins_.begin(), joins_.end(), Join{});
  heap_.clear();
  for (uint32_t at = 0; at < count; ++at) {
    next_[at] = at + 1;
    before_[at + 1] = at;
    if (at + 1 == count) break;
    if (!joined(ids_[at], ids_[at + 1], &joins_[at])) return false;
    if (joins_[at].rank != kNone && !there(heap_.push_back({joins_[at].rank, at}))) return false;
  }
  std::make_heap(heap_.begin(), heap_.end());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate top = heap_.back();
    heap_.pop_back();
    if (joins_[top.position].rank != top.rank) continue;
    const uint32_t right = next_[top.position];
    ids_[top.position] = joins_[top.position].id;
    ids_[right] = kNone;
    joins_[right] = {};
    next_[top.position] = next_[right];
    before_[next_[right]] = top.position;
    if (top.position > 0 && !offer(before_[top.position], count)) return false;
    if (!offer(top.position, count)) return false;
  }
  ids_.cut(std::remove(ids_.begin(), ids_.end(), kNone));
  return true;
}

// Looks up the pair of a symbol and the next one, and puts it into the heap.
bool Merger::offer(uint32_t at, uint32_t count) {
  joins_[at] = {};
  if (next_[at] >= count) return true;
  if (!joined(ids_[at], ids_[next_[at]], &joins_[at])) return false;
  if (joins_[at].rank == kNone) return true;
  if (!there(heap_.push_back({joins_[at].rank, at}))) return false;
  std::push_heap(heap_.begin(), heap_.end());
  return true;
}

}  // namespace edgedec::text
