#include "engine/decode/passes.h"

#include <algorithm>

namespace edgedec::engine {
namespace {

const DraftTree kNoDraft;

}  // namespace

SequencePasses::SequencePasses(Forward& forward, PassObserver* observer, Clock* clock)
    : forward_(forward), observer_(observer), clock_(clock) {
  tokens_.reserve(kLongestPass);
  parents_.reserve(kLongestPass);
}

int64_t SequencePasses::longest() const { return std::min(forward_.max_pass(), kLongestPass); }

Status SequencePasses::catch_up(Span<const int32_t> committed, ReplyListener* listener, HiddenReader* reader,
                                bool* stopped) {
  *stopped = false;
  const int64_t most = longest();
  while (static_cast<int64_t>(committed.size()) - forward_.length() > most) {
    const int64_t start = forward_.length();
    double seconds;
    const Span<const int32_t> piece = committed.from(static_cast<size_t>(start)).first(static_cast<size_t>(most));
    Rows rows = Rows::chosen({});
    rows.hidden = reader;
    EDGEDEC_TRY(run(piece, kNoDraft, rows, &unread_, &seconds));
    if (reader) reader->read(start, unread_.hidden);
    record({start, most, 0, seconds, 0, nullptr, {}});
    if (!report(listener, committed.size())) {
      *stopped = true;
      return {};
    }
  }
  return {};
}

Status SequencePasses::run(Span<const int32_t> tokens, const DraftTree& tree, const Rows& rows, HeadRows* head,
                           double* seconds) {
  tokens_.assign(tokens.begin(), tokens.end());
  tokens_.insert(tokens_.end(), tree.tokens.begin(), tree.tokens.end());
  parents_.clear();
  if (!tree.empty()) {
    const int behind = static_cast<int>(tokens.size());
    for (int at = 0; at < behind; ++at) parents_.push_back(at - 1);
    for (int parent : tree.parents) parents_.push_back(behind + parent);
  }
  const double began = clock_ ? clock_->now() : 0.0;
  EDGEDEC_TRY(forward_.extend(tokens_, parents_, rows, head));
  *seconds = clock_ ? clock_->now() - began : 0.0;
  ++work_.passes;
  work_.tokens += static_cast<int64_t>(tokens_.size());
  return {};
}

bool SequencePasses::report(ReplyListener* listener, size_t committed) const {
  const auto total = static_cast<int64_t>(committed);
  return !listener || listener->progress(std::min(forward_.length(), total), total);
}

void SequencePasses::record(const PassRecord& record) {
  if (observer_) observer_->passed(record);
}

}  // namespace edgedec::engine
