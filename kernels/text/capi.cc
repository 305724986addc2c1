// C ABI of the tokenizer: text/steps.h over a mapped table. Only an encoder is kept between calls.
#include <algorithm>
#include <memory>
#include <new>

#include "common/capi.h"
#include "text/steps.h"

using namespace edgedec::text;

namespace {

struct OpenEncoder {
  Table table;
  std::unique_ptr<Encoder> encoder;
  edgedec::Array<uint32_t> found;
};

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

// An encoder over the table at data, which outlives it, for one call at a time; null for a damaged table.
EDGEDEC_EXPORT OpenEncoder* edgedec_text_open(const void* data, size_t size) {
  std::unique_ptr<OpenEncoder> made(new (std::nothrow) OpenEncoder);
  if (!made || !made->table.open(static_cast<const uint8_t*>(data), size)) return nullptr;
  made->encoder.reset(new (std::nothrow) Encoder(made->table));
  return made->encoder && made->encoder->open() ? made.release() : nullptr;
}

EDGEDEC_EXPORT void edgedec_text_close(OpenEncoder* it) { delete it; }

// Writes the ids of a text; without `specials` control tokens in it stay text, and with it those that contain one of the
// bytes at `literal`, which ascend. Returns how many, or a Failure.
EDGEDEC_EXPORT int64_t edgedec_text_ids(OpenEncoder* it, int specials, const size_t* literal, size_t literals,
                                        const char* text, size_t length, uint32_t* ids, size_t room) {
  it->found.clear();
  const Specials read = {specials != 0, {literal, literals}};
  if (const int64_t failure = it->encoder->encode({text, length}, read, &it->found)) return failure;
  if (it->found.size() > room) return kNoRoom;
  std::copy(it->found.begin(), it->found.end(), ids);
  return static_cast<int64_t>(it->found.size());
}
