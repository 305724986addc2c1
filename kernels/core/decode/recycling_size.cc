#include "core/decode/recycling_size.h"

#include <cstring>

namespace edgedec::engine {
namespace {

constexpr uint32_t kWidth = 4, kMostBits = 40;
constexpr size_t kHeader = 8, kPlace = 4 + 5 * kWidth + 1;

// The parts of a saved table with `places` places: tags u32, tokens i32, levels u8 and marks u8, in this order.
struct Parts {
  size_t tags, tokens, levels, marks;

  explicit Parts(size_t places)
      : tags(kHeader), tokens(tags + 4 * places), levels(tokens + 4 * kWidth * places), marks(levels + kWidth * places) {}
};

uint32_t word(Span<const uint8_t> data, size_t at) {
  uint32_t value;
  std::memcpy(&value, data.data() + at, 4);
  return value;
}

}  // namespace

std::vector<uint8_t> shrunk_recycling(Span<const uint8_t> data, size_t saved_size) {
  const size_t places = saved_size / kPlace;
  if (data.size() < kHeader || !places || places & (places - 1)) return {};
  const uint32_t bits = word(data, 0), width = word(data, 4);
  if (width != kWidth || bits > kMostBits || data.size() != kHeader + (uint64_t{kPlace} << bits)) return {};
  const size_t per = (size_t{1} << bits) / places;
  if (per < 2) return {};
  const Parts from(size_t{1} << bits), to(places);
  std::vector<uint8_t> out(kHeader + kPlace * places);
  uint32_t few = 0;
  while (size_t{1} << few < places) ++few;
  std::memcpy(out.data(), &few, 4);
  std::memcpy(out.data() + 4, &kWidth, 4);
  for (size_t place = 0; place < places; ++place) {
    size_t best = place * per;
    int surest = -1;
    for (size_t one = place * per; one < (place + 1) * per; ++one) {
      const int surety = word(data, from.tags + 4 * one) ? 1 + data[from.levels + kWidth * one] : 0;
      if (surety > surest) {
        surest = surety;
        best = one;
      }
    }
    std::memcpy(out.data() + to.tags + 4 * place, data.data() + from.tags + 4 * best, 4);
    std::memcpy(out.data() + to.tokens + 4 * kWidth * place, data.data() + from.tokens + 4 * kWidth * best, 4 * kWidth);
    std::memcpy(out.data() + to.levels + kWidth * place, data.data() + from.levels + kWidth * best, kWidth);
    out[to.marks + place] = data[from.marks + best];
  }
  return out;
}

}  // namespace edgedec::engine
