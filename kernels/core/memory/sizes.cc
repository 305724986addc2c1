#include "core/memory/sizes.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/memory/size.h"

namespace edgedec::engine {
namespace {

// Tokens that can be rewound where layers have a window: a reply of usual length that is regenerated.
constexpr int64_t kRingSlack = 256;

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

int64_t ring_kept(const ModelSpec& spec) { return spec.window + kRingSlack; }

int64_t ring_slots(const ModelSpec& spec, int64_t capacity, int64_t longest, KvType kv) {
  if (!spec.n_window_layers) return 0;
  const int64_t row = kv_row_bytes(spec.head_dim, kv);
  const int64_t pages = divided_up((Size(ring_kept(spec) + longest) * row).count(), kPage);
  return std::min(pages * kPage / row, capacity);
}

int64_t kv_bytes(const ModelSpec& spec, int64_t capacity, KvType kv, int64_t ring) {
  const Size slots = Size(spec.n_layers - spec.n_window_layers) * capacity +
                     Size(spec.n_window_layers) * (ring ? ring : capacity);
  return (Size(2) * spec.n_kv_heads * slots * kv_row_bytes(spec.head_dim, kv)).count();
}

}  // namespace edgedec::engine
