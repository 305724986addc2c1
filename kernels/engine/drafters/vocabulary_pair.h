// The vocabularies of a target and of a small model that drafts for it.
#pragma once

#include <memory>

#include "core/draft/bridge.h"
#include "engine/bundle/manifest.h"
#include "engine/drafters/prepared_maps.h"
#include "engine/drafters/registry.h"
#include "engine/text/tokenizer.h"

namespace edgedec::engine {

class VocabularyPair {
 public:
  struct Target {
    const Manifest& manifest;
    const Tokenizer& tokenizer;
  };

  // Finds how the vocabulary of the target, which outlives this, and that of the small model `spec` go together. kUnsupported
  // where nothing says so.
  Status open(const Target& target, const Manifest& draft, const DrafterSpec& spec);

  // Reads and writes the target's tokens for one conversation; this outlives it.
  std::unique_ptr<Bridge> bridge();
  // Bytes of a tokenizer of the small model's own.
  size_t mapped_bytes() const { return tokenizer_ ? tokenizer_->mapped_bytes() : 0; }

 private:
  const Tokenizer* target_ = nullptr;
  std::unique_ptr<Tokenizer> tokenizer_;  // none where both have the same vocabulary
  PreparedMaps maps_;
  int64_t shared_ids_ = 0;  // ids that both models have
};

}  // namespace edgedec::engine
