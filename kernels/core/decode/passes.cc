#include "core/decode/passes.h"

#include <algorithm>

namespace edgedec::engine {

SequencePasses::SequencePasses(Forward& forward, PassObserver* observer, Clock* clock)
    : forward_(forward), observer_(observer), clock_(clock) {
  tokens_.reserve(kLongestPass);
  parents_.reserve(kLongestPass);
}

int64_t SequencePasses::longest() const { return std::min(forward_.max_pass(), kLongestPass); }

const WantedPass& SequencePasses::want(Span<const int32_t> tokens, const DraftTree& tree, const Rows& rows, HeadRows* head) {
  tokens_.assign(tokens.begin(), tokens.end());
  tokens_.insert(tokens_.end(), tree.tokens.begin(), tree.tokens.end());
  parents_.clear();
  if (!tree.empty()) {
    const int behind = static_cast<int>(tokens.size());
    for (int at = 0; at < behind; ++at) parents_.push_back(at - 1);
    for (int parent : tree.parents) parents_.push_back(behind + parent);
  }
  wanted_ = {tokens_, parents_, rows, head};
  return wanted_;
}

Status SequencePasses::run(double* seconds) {
  const double began = clock_ ? clock_->now() : 0.0;
  EDGEDEC_TRY(forward_.extend(wanted_.tokens, wanted_.parents, wanted_.rows, wanted_.found));
  *seconds = clock_ ? clock_->now() - began : 0.0;
  return {};
}

void SequencePasses::count() {
  ++work_.passes;
  work_.tokens += static_cast<int64_t>(tokens_.size());
}

bool SequencePasses::report(ReplyListener* listener, size_t committed) const {
  const auto total = static_cast<int64_t>(committed);
  return !listener || listener->progress(std::min(forward_.length(), total), total);
}

void SequencePasses::record(const PassRecord& record) {
  if (observer_) observer_->passed(record);
}

}  // namespace edgedec::engine
