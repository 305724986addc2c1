// Drafters that are layers of the target itself: exits, and all layers around a span.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/decode/drafter.h"
#include "core/decode/forward.h"
#include "core/draft/trimmed_head.h"
#include "engine/bundle/manifest.h"
#include "engine/drafters/registry.h"

namespace edgedec::engine {

// The refusal of exits of a model whose bundle has none.
Status no_exits(const std::string& model);

// Fails for layers that a model of these exits does not have. kUsage, kUnsupported.
Status check_exits(const std::string& model, Span<const int> exits, const std::vector<DrafterSpec>& drafters);

// A model, and bytes of its weights and its KV cache.
struct OwnLayers {
  const Manifest& manifest;
  int64_t weights, kv_cache;
};

// Adds the drafters that a name stands for: exits that promise to pay, or the layers that it says. `trimmed`: ids that their
// head is trimmed to; null: all.
void add_exits(const DrafterSpec& spec, const OwnLayers& of, Forward& forward, const std::shared_ptr<TrimmedHead>& trimmed,
               Drafters* drafters);

}  // namespace edgedec::engine
