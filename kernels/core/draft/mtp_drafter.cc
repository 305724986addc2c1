#include "core/draft/mtp_drafter.h"

#include <utility>

namespace edgedec::engine {

MtpDrafter::MtpDrafter(std::unique_ptr<LayerForward> layer, int tap, std::shared_ptr<TrimmedHead> trimmed)
    : HeadDrafter(std::move(layer), {tap}), trimmed_(std::move(trimmed)) {
  pretrained = true;
}

Status MtpDrafter::begin(Span<const int32_t> tokens, size_t kept) {
  EDGEDEC_TRY(HeadDrafter::begin(tokens, kept));
  if (!trimmed_) return {};
  trimmed_->begin();
  trimmed_->follow(tokens_);
  return {};
}

Status MtpDrafter::commit(Span<const int32_t> tokens) {
  EDGEDEC_TRY(HeadDrafter::commit(tokens));
  if (trimmed_) trimmed_->follow(tokens_);
  return {};
}

Status MtpDrafter::read(int64_t start, Span<const float> hidden) {
  for (; !hidden.empty(); hidden = hidden.from(kMostWaiting * width()), start += kMostWaiting) {
    const Span<const float> piece = hidden.first(kMostWaiting * width());
    // The token behind the newest position may not be told yet.
    const bool known = waiting_.empty() || waiting_.back() + 1 < tokens_.size();
    if (known && waiting_.size() + piece.size() / width() > kMostWaiting) EDGEDEC_TRY(feed_waiting(false));
    EDGEDEC_TRY(HeadDrafter::read(start, piece));
  }
  return {};
}

}  // namespace edgedec::engine
