// Drafting with the layer of a model that its makers trained to predict further tokens (MTP).
//
// It works as a trained head does, over the outputs of the last layer alone. Its own cache keeps step with the target's: all
// that waits is read before it would be too much. Its head is the target's own, perhaps trimmed.
#pragma once

#include <memory>

#include "core/draft/head_drafter.h"
#include "core/draft/trimmed_head.h"

namespace edgedec::engine {

class MtpDrafter final : public HeadDrafter {
 public:
  // Drafts with `layer`, whose cache it owns, from the outputs of the layer `tap` of the target. `trimmed`: ids that its head
  // is trimmed to; null: all.
  MtpDrafter(std::unique_ptr<LayerForward> layer, int tap, std::shared_ptr<TrimmedHead> trimmed);

  const char* name() const override { return "mtp"; }
  Status begin(Span<const int32_t> tokens, size_t kept) override;
  Status commit(Span<const int32_t> tokens) override;
  Status read(int64_t start, Span<const float> hidden) override;
  size_t nbytes() const override { return HeadDrafter::nbytes() + (trimmed_ ? trimmed_->nbytes() : 0); }

 private:
  Span<const int64_t> keep() const override { return trimmed_ ? trimmed_->keep() : Span<const int64_t>(); }

  std::shared_ptr<TrimmedHead> trimmed_;
};

}  // namespace edgedec::engine
