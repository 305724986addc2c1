#include "engine/decode/pass_costs.h"

#include <algorithm>
#include <cmath>

#include "core/base/format.h"
#include "core/decode/cost_series.h"

namespace edgedec::engine {
namespace {

constexpr double kQuietS = 1.0;
constexpr int64_t kStride = 7919;  // between tokens fed one after the other: a prime, so that all come before one comes again

// Passes over an empty KV cache, timed.
class TimedPasses {
 public:
  TimedPasses(Forward& forward, Clock& clock, Notice* notice)
      : forward_(forward), clock_(clock), notice_(notice), started_(clock.now()), spoken_(started_),
        tokens_(kMostTimed, 0) {}

  // Whether passes wait for experts, which is none of their time.
  bool streamed() const { return forward_.reads() != nullptr; }

  double elapsed() { return clock_.now() - started_; }

  // The seconds of a pass over `size` tokens, all rows wanted.
  Status run(int size, double* seconds) {
    EDGEDEC_TRY(forward_.rewind(0));
    next_tokens(size);
    const double began = clock_.now();
    EDGEDEC_TRY(forward_.extend(Span<const int32_t>(tokens_).first(static_cast<size_t>(size)), {}, Rows::all(), &head_));
    *seconds = clock_.now() - began - (streamed() ? forward_.reads()->waited_s : 0.0);
    return {};
  }

  // Always others where a token decides which experts are read.
  void next_tokens(int size) {
    const ModelSpec& spec = forward_.spec();
    for (int at = 0; at < size && spec.experts.count; ++at)
      tokens_[static_cast<size_t>(at)] = static_cast<int32_t>(fed_++ * kStride % spec.vocab_size);
  }

  // Says that `part` of 1 is done, if there was no notice for a while.
  void report(double part) {
    if (clock_.now() - spoken_ <= kQuietS) return;
    if (notice_) notice_->tell("measuring: " + decimal(static_cast<int>(std::nearbyint(std::min(100 * part, 99.0)))) + "%");
    spoken_ = clock_.now();
  }

  void conclude() {
    if (spoken_ != started_ && notice_) notice_->tell("measuring: 100%");
  }

 private:
  Forward& forward_;
  Clock& clock_;
  Notice* notice_;
  double started_, spoken_;
  std::vector<int32_t> tokens_;
  int64_t fed_ = 0;
  HeadRows head_;
};

}  // namespace

Status measure_costs(Forward& forward, Clock& clock, Notice* notice, Points* seconds) {
  TimedPasses timed(forward, clock, notice);
  CostSeries series(forward.capacity(), forward.max_pass(), timed.streamed());
  while (const int size = series.next()) {
    if (series.may_end() && timed.elapsed() > series.patience()) break;
    double took;
    EDGEDEC_TRY(timed.run(size, &took));
    series.took(took);
    if (series.paired()) timed.report(series.part());
  }
  timed.conclude();
  EDGEDEC_TRY(forward.rewind(0));
  *seconds = series.points();
  return {};
}

Status PassCosts::know(Forward& forward, const CostFile* file, Clock& clock, Notice* notice, bool again) {
  file_ = file;
  kept_.reset();
  EDGEDEC_TRY(find(forward, clock, notice, again));
  streamed_.reset();
  if (resident < 1.0) streamed_ = std::make_unique<StreamedCosts>(curve, forward.spec().experts, resident);
  return {};
}

// Finds the curve, in the file or by measuring it.
Status PassCosts::find(Forward& forward, Clock& clock, Notice* notice, bool again) {
  const CostFile* file = file_;
  const std::optional<KeptCosts> found = file && !again ? file->read() : std::nullopt;
  const std::string& name = forward.spec().name;
  if (found && found->seconds.back().first >= CostSeries(forward.capacity(), forward.max_pass()).longest()) {
    if (found->stands(file->now())) {
      kept_ = found;
      return CostCurve::make(found->seconds, true, &curve);
    }
    if (notice) notice->tell("measuring again what passes of " + name + " cost: they ran otherwise than measured");
  } else if (notice) {
    notice->tell("measuring what passes of " + name + " cost, once");
  }
  Points seconds;
  EDGEDEC_TRY(measure_costs(forward, clock, notice, &seconds));
  EDGEDEC_TRY(CostCurve::make(seconds, false, &curve));
  if (!file) return {};
  const Moment moment = file->moment(seconds);
  kept_ = KeptCosts{seconds, moment, moment, false};
  if (const Status written = file->write(*kept_); !written.ok() && notice)
    notice->tell("note: " + written.message() + "; the next start measures again");
  return {};
}

void PassCosts::keep(const Points& seconds) {
  if (!file_ || !kept_) return;
  kept_ = kept_->corrected(seconds, file_->moment(seconds));
  const Status written = file_->write(*kept_);  // in the middle of a conversation; the next start uses older costs
  (void)written;
}

}  // namespace edgedec::engine
