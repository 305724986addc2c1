#include "text/compose.h"

#include <algorithm>

namespace edgedec::text {
namespace {

constexpr uint32_t kFirstChanging = 0x300;  // no character below it changes what another one becomes
// Syllables of Hangul are computed.
constexpr uint32_t kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7, kSyllable = 0xAC00;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;

struct Character {
  uint32_t code;
  uint32_t combining;
};

// The entry of an ascending table, of `width` words each, that begins with these keys; null for none.
const uint32_t* entry(const Table& table, Part part, size_t width, uint32_t key, const uint32_t* second = nullptr) {
  const uint32_t* words = table.words(part);
  uint64_t low = 0, high = table.count(part);
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    const uint32_t* one = words + width * middle;
    if (one[0] < key || (one[0] == key && second && one[1] < *second)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const uint32_t* found = words + width * low;
  return low < table.count(part) && found[0] == key && (!second || found[1] == *second) ? found : nullptr;
}

class Composer {
 public:
  explicit Composer(const Table& table) : table_(table) {}

  // Returns 0, kDamaged or kNoMemory.
  int64_t decompose(std::string_view text) {
    bool room = true;
    for (size_t at = 0; at < text.size() && room;) {
      uint32_t code;
      at += character(text.data() + at, text.size() - at, &code);
      if (code == kNone) code = 0xFFFD;
      if (code - kSyllable < kSyllables) {
        const uint32_t number = code - kSyllable;
        room = put(kLead + number / (kVowels * kTails)) && put(kVowel + number / kTails % kVowels) &&
               (number % kTails == 0 || put(kTail + number % kTails));
      } else if (const uint32_t* found = entry(table_, kDecomposed, 3, code)) {
        const uint64_t count = table_.count(kDecomposition);
        if (found[1] > count || found[2] > count - found[1] || found[2] > 8) return kDamaged;
        for (uint32_t i = 0; i < found[2] && room; ++i) room = put(table_.words(kDecomposition)[found[1] + i]);
      } else {
        room = put(code);
      }
    }
    return room ? kDone : kNoMemory;
  }

  // Puts combining characters in order, those of one class as they came.
  void order() {
    const auto starts = [](const Character& one) { return one.combining == 0; };
    for (auto from = all_.begin(); from != all_.end();) {
      const auto to = std::find_if(from, all_.end(), starts);
      std::stable_sort(from, to, [](const Character& a, const Character& b) { return a.combining < b.combining; });
      from = std::find_if_not(to, all_.end(), starts);
    }
  }

  void join() {
    size_t written = 0, starter = kNowhere;
    for (const Character one : all_) {
      // A character between the two that does not come before this one keeps them apart.
      const bool near = starter != kNowhere && (starter + 1 == written || all_[written - 1].combining < one.combining);
      const uint32_t both = near ? joined(all_[starter].code, one.code) : kNone;
      if (both != kNone) {
        all_[starter].code = both;
        continue;
      }
      if (!one.combining) starter = written;
      all_[written++] = one;
    }
    all_.cut(all_.begin() + written);
  }

  bool write(Array<char>* out) const {
    return std::all_of(all_.begin(), all_.end(), [&](const Character& one) { return append(one.code, out); });
  }

 private:
  static constexpr size_t kNowhere = ~size_t{0};

  bool put(uint32_t code) {
    const uint32_t* found = code < kFirstChanging ? nullptr : entry(table_, kCombining, 2, code);
    return all_.push_back({code, found ? found[1] : 0});
  }

  uint32_t joined(uint32_t first, uint32_t second) const {
    if (first - kLead < kLeads && second - kVowel < kVowels) {
      return kSyllable + ((first - kLead) * kVowels + second - kVowel) * kTails;
    }
    if (first - kSyllable < kSyllables && (first - kSyllable) % kTails == 0 && second - kTail - 1 < kTails - 1) {
      return first + second - kTail;
    }
    const uint32_t* found = entry(table_, kComposed, 3, first, &second);
    return found ? found[2] : kNone;
  }

  static bool append(uint32_t code, Array<char>* out) {
    const uint32_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr uint32_t kLeadByte[] = {0, 0xC0, 0xE0, 0xF0};
    char bytes[4] = {static_cast<char>(kLeadByte[more] | code >> 6 * more)};
    for (uint32_t i = 1; i <= more; ++i) bytes[i] = static_cast<char>(0x80 | (code >> 6 * (more - i) & 0x3F));
    return out->append(bytes, more + 1);
  }

  const Table& table_;
  Array<Character> all_;
};

}  // namespace

int64_t compose(const Table& table, std::string_view text, Array<char>* out) {
  out->clear();
  const auto changes = [](char byte) { return static_cast<uint8_t>(byte) >= 0xCC; };  // U+0300 begins with it
  if (std::none_of(text.begin(), text.end(), changes)) return out->append(text.data(), text.size()) ? kDone : kNoMemory;
  Composer composer(table);
  if (const int64_t failure = composer.decompose(text)) return failure;
  composer.order();
  composer.join();
  return composer.write(out) ? kDone : kNoMemory;
}

}  // namespace edgedec::text
