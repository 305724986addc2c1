// Drafting with a trained head over the target's hidden states (EAGLE-3, Li et al. 2025).
//
// For position i the head reads the target's hidden states of token i and the token i + 1, and predicts token i + 2; behind
// drafted tokens it reads its own output instead. So hidden states are due for every committed token but the last, and read()
// brings them. They wait until a draft is asked for, the newest ones only.
//
// Where the head is unsure, the most probable nodes of the draft share a pass (a beam; EAGLE-2, Li et al. 2024). Such a pass
// feeds the nodes above them again, since they are not one path; a lone path goes on in the cache.
#pragma once

#include <memory>
#include <vector>

#include "core/draft/growing_drafter.h"
#include "core/draft/layer_forward.h"

namespace edgedec::engine {

class HeadDrafter : public GrowingDrafter {
 public:
  static constexpr size_t kMostWaiting = 128;  // tokens whose hidden states wait; of a longer text it reads the end alone
  static constexpr size_t kMostFed = 24;       // most tokens of a pass over drafted nodes

  // Drafts with `head`, whose cache it owns, from the outputs of the layers `taps` of the target.
  HeadDrafter(std::unique_ptr<LayerForward> head, std::vector<int> taps);

  const char* name() const override { return "head"; }
  Span<const int> taps() const override { return taps_; }
  DraftWork work() const override { return head_->work(); }
  // The hidden states of the kept tokens stay known.
  Status begin(Span<const int32_t> tokens, size_t kept) override;
  Status read(int64_t start, Span<const float> hidden) override;
  // Drafts nothing where the last hidden states are missing.
  Status propose(int limit, double floor, Source self, DraftTree* tree) override;
  size_t nbytes() const override;

 protected:
  // Ids that the head predicts; none: all.
  virtual Span<const int64_t> keep() const { return {}; }
  // Feeds all that waits, and with `predict` keeps what the head predicts behind it.
  Status feed_waiting(bool predict);
  size_t width() const { return static_cast<size_t>(head_->sizes().width); }

  std::vector<size_t> waiting_;  // positions whose hidden states wait in the first rows of hidden_

 private:
  Status feed(const std::vector<int>& chosen, bool* fed) override;
  Status feed_nodes(const std::vector<int>& chosen, const std::vector<int>& nodes);
  Status catch_up(bool* ready);
  Status forget(size_t stay);
  void drop_oldest(size_t count);
  size_t same(const std::vector<int>& path) const;

  std::unique_ptr<LayerForward> head_;
  const std::vector<int> taps_;
  std::vector<size_t> cached_;  // positions whose hidden states the cache has read, ascending
  std::vector<float> hidden_;
  size_t next_ = 0;             // the first position whose hidden states are not known
  bool answered_ = false;       // whether answer_ is the head's prediction behind cached_
  HeadPass answer_, found_;
  std::vector<int> held_;       // nodes of the draft in the cache, a path
  std::vector<float> fed_states_;
};

}  // namespace edgedec::engine
