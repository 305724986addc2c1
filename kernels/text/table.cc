#include <cstring>

#include "text/bpe.h"

namespace edgedec::text {
namespace {

constexpr char kMagic[] = "EDGEBPE2";
constexpr uint64_t kElement[kParts] = {1, 4, 1, 1, 4, 8, 4, 4, 12, 12, 1, 4, 4, 1, 8, 12, 4, 8, 12};

// Compares as memcmp does, a prefix first.
int compare(const char* a, size_t a_length, const char* b, size_t b_length) {
  const size_t shared = a_length < b_length ? a_length : b_length;
  const int order = shared ? std::memcmp(a, b, shared) : 0;
  return order ? order : a_length < b_length ? -1 : a_length > b_length;
}

}  // namespace

bool Table::open(const uint8_t* data, size_t size) {
  if (size < sizeof(Header) || reinterpret_cast<uintptr_t>(data) % 8 || std::memcmp(data, kMagic, 8)) return false;
  data_ = data;
  header_ = reinterpret_cast<const Header*>(data);
  for (int part = 0; part < kParts; ++part) {
    const auto& [offset, count] = header_->parts[part];
    if (offset % 8 || offset < sizeof(Header) || offset > size || count > (size - offset) / kElement[part]) return false;
  }
  const uint64_t ids = header_->ids;
  return count(kStarts) == ids + 1 && count(kKinds) == ids && count(kRows) == ids + 1 && count(kByteTokens) == 256 &&
         count(kFirst) == 2 * 257;
}

bool Table::spelling(uint32_t id, const char** text, size_t* length) const {
  if (!known(id)) return false;
  const uint32_t start = words(kStarts)[id], end = words(kStarts)[id + 1];
  if (start > end || end > count(kSpellings)) return false;
  *text = bytes(kSpellings) + start;
  *length = end - start;
  return true;
}

int64_t find(const Table& table, const char* text, size_t length) {
  const uint32_t* sorted = table.words(kSorted);
  uint64_t low = 0, high = table.count(kSorted);
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    const char* other;
    size_t other_length;
    if (!table.spelling(sorted[middle], &other, &other_length)) return kDamaged;
    const int order = compare(other, other_length, text, length);
    if (!order) return sorted[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return kMissing;
}

}  // namespace edgedec::text
