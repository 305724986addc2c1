// C ABI of the tokenizer: text/bpe.h over a mapped table. Each call checks the header; nothing is kept between calls.
#include "common/capi.h"
#include "text/bpe.h"

using namespace edgedec::text;

namespace {

// What `act` returns for the table at data, or kDamaged.
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

EDGEDEC_EXPORT int64_t edgedec_text_split(const void* data, size_t size, int rewritten, int specials, const char* text,
                                          size_t length, uint32_t* spans, size_t room) {
  return with_table(data, size, [&](const Table& table) {
    return split(table, rewritten != 0, specials != 0, text, length, spans, room);
  });
}

EDGEDEC_EXPORT int64_t edgedec_text_encode(const void* data, size_t size, const char* text, const uint32_t* ends,
                                           const uint32_t* tokens, size_t pieces, uint32_t* ids, size_t room) {
  return with_table(data, size,
                    [&](const Table& table) { return encode(table, text, ends, tokens, pieces, ids, room); });
}
