// Sizes of drafters that belong to one target, as their manifests state them: edgedec/bundle/head_facts.py, mtp_facts.py and
// assistant_facts.py, which explain each number.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/model_spec.h"
#include "engine/bundle/drafter_manifest.h"

namespace edgedec::engine {

// A packed table in the target's weights.
struct TableFacts {
  int64_t offset = 0, tiles = 0, tile_bytes = 0;
  int64_t bytes() const { return tiles * tile_bytes; }
};

// A decoder layer that drafts. Sizes are in elements; `table` is the embedding.
struct LayerFacts {
  int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, ids = 0, head_k = 0;
  TableFacts table;
  Experts experts;  // none: their count is 0

  // The layer as a model, whose cache holds `context` positions.
  ModelSpec spec(int64_t context) const;
};

struct HeadFacts : LayerFacts {
  int64_t fc_bytes = 0, head_bytes = 0, tap_size = 0, own_table = 0;
  std::vector<int> taps;  // none: the usual ones

  // Numbers of a token's hidden states.
  int64_t width() const;
  // Takes them from the facts of a manifest. kBadFile for a missing or impossible one; the same below.
  static Status of(const DrafterManifest& manifest, HeadFacts* facts);
};

struct MtpFacts : LayerFacts {
  TableFacts head;  // the target's

  static Status of(const DrafterManifest& manifest, MtpFacts* facts);
};

struct AssistantFacts {
  int64_t target_hidden = 0, hidden = 0, heads = 0, head_dim = 0, ffn = 0, ids = 0, scored = 0, head_k = 0, head_bytes = 0;
  TableFacts table;

  static Status of(const DrafterManifest& manifest, AssistantFacts* facts);
};

}  // namespace edgedec::engine
