// C ABI of the tokenizer: text/steps.h over a mapped table. Each call checks the header; nothing is kept between calls.
#include <algorithm>
#include <memory>
#include <new>

#include "common/capi.h"
#include "text/steps.h"

using namespace edgedec::text;

namespace {

// Returns the result of `act` for the table at data, or kDamaged.
template <typename Act>
int64_t with_table(const void* data, size_t size, Act act) {
  Table table;
  return table.open(static_cast<const uint8_t*>(data), size) ? act(table) : int64_t{kDamaged};
}

}  // namespace

// 0, or kDamaged.
EDGEDEC_EXPORT int64_t edgedec_text_check(const void* data, size_t size) {
  return with_table(data, size, [](const Table&) { return int64_t{0}; });
}

EDGEDEC_EXPORT int64_t edgedec_text_find(const void* data, size_t size, const char* text, size_t length) {
  return with_table(data, size, [&](const Table& table) { return find(table, text, length); });
}

// Writes the ids of a text; without `specials` control tokens in it stay text. Returns how many, or a Failure.
EDGEDEC_EXPORT int64_t edgedec_text_encode(const void* data, size_t size, int specials, const char* text, size_t length,
                                           uint32_t* ids, size_t room) {
  return with_table(data, size, [&](const Table& table) -> int64_t {
    const std::unique_ptr<Encoder> encoder(new (std::nothrow) Encoder(table));  // it is large
    if (!encoder) return kNoMemory;
    edgedec::Array<uint32_t> found;
    if (!encoder->open()) return kDamaged;
    if (const int64_t failure = encoder->encode({text, length}, specials != 0, &found)) return failure;
    if (found.size() > room) return kNoRoom;
    std::copy(found.begin(), found.end(), ids);
    return static_cast<int64_t>(found.size());
  });
}
