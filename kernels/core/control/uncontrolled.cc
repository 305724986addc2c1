#include "core/control/uncontrolled.h"

#include <utility>

namespace edgedec::engine {

void Uncontrolled::begin(Span<const int32_t> stop_ids) { stop_ids_.assign(stop_ids.begin(), stop_ids.end()); }

Round& Uncontrolled::round(int room) {
  room_ = room;
  asked_ = here_;
  return *this;
}

const DraftTree& Uncontrolled::draft(Asker& asker, const DraftTree& certain) {
  proposed_.resize(here_.size() + 1);
  proposed_[0] = certain;
  size_t proposals = 1;
  for (size_t at = 0; room_ > 0 && at < here_.size(); ++at) {
    answer_.tree.clear();
    const bool answered = asked_[at] && asker.ask({static_cast<Source>(at), room_, 0.0}, &answer_);
    if (answered && !answer_.tree.empty()) std::swap(proposed_[proposals++], answer_.tree);
  }
  merger_.merge({proposed_.data(), proposals}, room_, nullptr, stop_ids_, &fed_);
  return fed_;
}

}  // namespace edgedec::engine
