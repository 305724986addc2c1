#include "core/memory/sizes.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/memory/size.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kDefaultCapacity = 4096;

}  // namespace

Status checked_capacity(const ModelSpec& spec, int64_t capacity, int64_t* tokens) {
  *tokens = capacity ? capacity : std::min(spec.context_length, kDefaultCapacity);
  if (*tokens >= 1 && *tokens <= spec.context_length) return {};
  return {Code::kUsage, "a context of " + decimal(capacity) + " tokens is not possible with this model",
          "use 1 to " + decimal(spec.context_length)};
}

int64_t kv_row_bytes(int64_t head_dim, KvType kv) {
  return kv == KvType::kInt8 ? head_dim + 2 * divided_up(head_dim, 32) : 2 * head_dim;
}

std::string kv_row_name(int64_t head_dim) {
  return "row_" + std::to_string(kv_row_bytes(head_dim, KvType::kFp16) / 2) + "_or_" +
         std::to_string(kv_row_bytes(head_dim, KvType::kInt8) / 2);
}

const char* kv_name(KvType kv) { return kv == KvType::kInt8 ? "int8" : "fp16"; }

const char* kv_format(KvType kv) { return kv == KvType::kInt8 ? "int8.2" : "fp16"; }

Keys whole_keys(const ModelSpec& spec) {
  for (const Keys& keys : keys_of(spec))
    if (!keys.window) return keys;
  return {0, spec.n_kv_heads, spec.head_dim, 0};
}

Keys ring_keys(const ModelSpec& spec) {
  for (const Keys& keys : keys_of(spec))
    if (keys.window) return keys;
  return {};
}

int64_t ring_kept(const ModelSpec& spec) { return ring_keys(spec).window + spec.rings.slack; }

int64_t ring_slots(const ModelSpec& spec, int64_t capacity, int64_t longest, KvType kv) {
  const Keys keys = ring_keys(spec);
  if (!keys.window) return 0;
  const int64_t row = kv_row_bytes(keys.head_dim, kv);
  const int64_t pages = divided_up((Size(keys.window + spec.rings.slack + longest) * row).count(), spec.rings.page);
  return std::min(pages * spec.rings.page / row, capacity);
}

int64_t kv_bytes(const ModelSpec& spec, int64_t capacity, KvType kv, int64_t ring) {
  Size total = 0;
  for (const Keys& keys : keys_of(spec)) {
    const Size rows = Size(2) * keys.layers * keys.kv_heads * (ring && keys.window ? ring : capacity);
    total = total + rows * kv_row_bytes(keys.head_dim, kv);
  }
  return total.count();
}

int64_t state_bytes(Span<const States> kinds) {
  Size total = 0;
  for (const States& kind : kinds)
    total = total + Size(4) * kind.layers * (Size(kTrailSlots + kind.tail) * kind.row + Size(2) * kind.state);
  return total.count();
}

int64_t most_undone(Span<const States> kinds) {
  int64_t most = kinds.empty() ? 0 : kTrailSlots;
  for (const States& kind : kinds) most = std::min(most, kTrailSlots - kind.tail);
  return most;
}

}  // namespace edgedec::engine
