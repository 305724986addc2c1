#include "engine/base/inflate.h"

#include <cstring>

namespace edgedec::engine {
namespace {

constexpr int kMostBits = 15;

// A code: how many words have each length, and their symbols in the order of the words.
struct Huffman {
  uint16_t count[kMostBits + 1];
  uint16_t symbol[288];

  // False for lengths that are no code. One word alone may leave the rest of the code unused.
  bool make(const uint8_t* lengths, int symbols) {
    std::memset(count, 0, sizeof count);
    for (int i = 0; i < symbols; ++i) ++count[lengths[i]];
    int left = 1;
    for (int length = 1; length <= kMostBits; ++length) {
      left = 2 * left - count[length];
      if (left < 0) return false;
    }
    uint16_t place[kMostBits + 2] = {};
    for (int length = 1; length <= kMostBits; ++length) place[length + 1] = static_cast<uint16_t>(place[length] + count[length]);
    for (int i = 0; i < symbols; ++i)
      if (lengths[i]) symbol[place[lengths[i]]++] = static_cast<uint16_t>(i);
    return left == 0 || count[0] >= symbols - 1;
  }
};

class Inflater {
 public:
  Inflater(Span<const uint8_t> in, Span<uint8_t> out) : in_(in), out_(out) {}

  bool run() {
    for (bool last = false; !last && fine_;) {
      last = bits(1);
      switch (bits(2)) {
        case 0: stored(); break;
        case 1: fixed(); break;
        case 2: dynamic(); break;
        default: fine_ = false;
      }
    }
    return fine_ && done_ == out_.size() && at_ == in_.size();
  }

 private:
  uint32_t bits(int count) {
    while (held_ < count) {
      if (at_ == in_.size()) {
        fine_ = false;
        return 0;
      }
      word_ |= static_cast<uint32_t>(in_[at_++]) << held_;
      held_ += 8;
    }
    const uint32_t value = word_ & ((1u << count) - 1);
    word_ >>= count;
    held_ -= count;
    return value;
  }

  void put(uint8_t byte) {
    if (done_ == out_.size()) fine_ = false;
    else out_[done_++] = byte;
  }

  int symbol(const Huffman& code) {
    int value = 0, first = 0, place = 0;
    for (int length = 1; length <= kMostBits && fine_; ++length) {
      value |= static_cast<int>(bits(1));
      const int count = code.count[length];
      if (value - count < first) return code.symbol[place + value - first];
      place += count;
      first = (first + count) << 1;
      value <<= 1;
    }
    fine_ = false;
    return 0;
  }

  void stored() {
    word_ = 0;
    held_ = 0;
    const uint32_t size = bits(16), other = bits(16);
    if ((size ^ other) != 0xFFFF || size > in_.size() - at_) fine_ = false;
    for (uint32_t i = 0; i < size && fine_; ++i) put(in_[at_++]);
  }

  void fixed() {
    uint8_t lengths[288];
    for (int i = 0; i < 288; ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    Huffman words, distances;
    words.make(lengths, 288);
    std::memset(lengths, 5, 30);
    distances.make(lengths, 30);
    compressed(words, distances);
  }

  void dynamic() {
    constexpr uint8_t kOrder[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const int words = static_cast<int>(bits(5)) + 257, distances = static_cast<int>(bits(5)) + 1;
    const int kinds = static_cast<int>(bits(4)) + 4;
    uint8_t lengths[320] = {};
    for (int i = 0; i < kinds; ++i) lengths[kOrder[i]] = static_cast<uint8_t>(bits(3));
    Huffman code, word_code, distance_code;
    if (words > 286 || distances > 30 || !code.make(lengths, 19)) fine_ = false;
    std::memset(lengths, 0, sizeof lengths);
    for (int at = 0; at < words + distances && fine_;) {
      const int kind = symbol(code);
      if (kind < 16) {
        lengths[at++] = static_cast<uint8_t>(kind);
        continue;
      }
      if (kind == 16 && at == 0) fine_ = false;
      const uint8_t value = kind == 16 && at ? lengths[at - 1] : 0;
      int times = kind == 16 ? 3 + static_cast<int>(bits(2)) : kind == 17 ? 3 + static_cast<int>(bits(3)) : 11 + static_cast<int>(bits(7));
      if (at + times > words + distances) fine_ = false;
      while (fine_ && times--) lengths[at++] = value;
    }
    if (!fine_ || !word_code.make(lengths, words) || !distance_code.make(lengths + words, distances)) {
      fine_ = false;
      return;
    }
    compressed(word_code, distance_code);
  }

  void compressed(const Huffman& words, const Huffman& distances) {
    constexpr uint16_t kLength[29] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                      31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    constexpr uint8_t kLengthBits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    constexpr uint16_t kDistance[30] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                                        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    while (fine_) {
      int one = symbol(words);
      if (one < 256) {
        if (fine_) put(static_cast<uint8_t>(one));
        continue;
      }
      if (one == 256) return;
      one -= 257;
      if (one >= 29 || !fine_) {
        fine_ = false;
        return;
      }
      size_t length = kLength[one] + bits(kLengthBits[one]);
      const int far = symbol(distances);
      if (far >= 30 || !fine_) {
        fine_ = false;
        return;
      }
      const size_t distance = kDistance[far] + bits(far < 4 ? 0 : far / 2 - 1);
      if (distance > done_) fine_ = false;
      while (fine_ && length--) put(out_[done_ - distance]);
    }
  }

  Span<const uint8_t> in_;
  Span<uint8_t> out_;
  size_t at_ = 0, done_ = 0;
  uint32_t word_ = 0;
  int held_ = 0;
  bool fine_ = true;
};

uint32_t adler32(Span<const uint8_t> data) {
  uint32_t low = 1, high = 0;
  for (uint8_t byte : data) {
    low = (low + byte) % 65521;
    high = (high + low) % 65521;
  }
  return high << 16 | low;
}

}  // namespace

bool unpack_zlib(Span<const uint8_t> packed, Span<uint8_t> out) {
  if (packed.size() < 6 || (packed[0] & 0x0F) != 8 || packed[0] >> 4 > 7 || packed[1] & 0x20) return false;
  if ((packed[0] * 256 + packed[1]) % 31) return false;
  const Span<const uint8_t> body = {packed.data() + 2, packed.size() - 6};
  if (!Inflater(body, out).run()) return false;
  const Span<const uint8_t> sum = packed.from(packed.size() - 4);
  return adler32({out.data(), out.size()}) ==
         (static_cast<uint32_t>(sum[0]) << 24 | static_cast<uint32_t>(sum[1]) << 16 | static_cast<uint32_t>(sum[2]) << 8 | sum[3]);
}

}  // namespace edgedec::engine
