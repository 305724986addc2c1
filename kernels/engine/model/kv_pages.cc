#include "engine/model/kv_pages.h"

#include <string.h>

#include <algorithm>

#include "common/os/memory.h"
#include "core/memory/size.h"

namespace edgedec::engine {

Status KvPages::allocate(const Shape& shape) {
  Size size = 2;
  for (int at = 0; at < 5; ++at) {
    shape_[at] = shape[at];
    size = size * shape[at];
  }
  row_bytes_ = 2 * shape[4];
  bytes_ = size.count();
  // A model may have no layer of the kind, and the runtime wants an address.
  EDGEDEC_TRY(block_.allocate(static_cast<size_t>(std::max<int64_t>(bytes_, 1)), "the KV cache"));
  os::prefer_small_pages(block_.data(), block_.size());  // a large one would commit 2 MiB for the first token of every head
  return {};
}

void KvPages::move(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  const auto row = static_cast<size_t>(row_bytes_);
  for (int64_t number = 0; number < heads(); ++number) {
    uint8_t* head = head_data(number);
    for (size_t at = 0; at < from.size(); ++at)
      memcpy(head + to[at] % rows() * row_bytes_, head + from[at] % rows() * row_bytes_, row);
  }
}

void KvPages::give_back(int64_t first) {
  const auto page = static_cast<int64_t>(os::page_bytes());
  const auto give = [&](int64_t start, int64_t end) {
    const int64_t begin = (start + page - 1) / page * page, size = end / page * page - begin;
    if (size > 0) os::give_back(data() + begin, static_cast<size_t>(size));
  };
  if (!first) return give(0, bytes_);
  const int64_t head = rows() * row_bytes_;
  for (int64_t number = 0; number < heads(); ++number) give(number * head + first * row_bytes_, (number + 1) * head);
}

std::pair<Span<uint8_t>, Span<uint8_t>> KvPages::head(int64_t number, int64_t first, int64_t end) const {
  const int64_t row = first < end ? first % rows() : 0, count = end - first;
  const int64_t straight = std::min(count, rows() - row);
  uint8_t* base = head_data(number);
  return {{base + row * row_bytes_, static_cast<size_t>(straight * row_bytes_)},
          {base, static_cast<size_t>((count - straight) * row_bytes_)}};
}

}  // namespace edgedec::engine
