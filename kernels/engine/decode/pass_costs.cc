#include "engine/decode/pass_costs.h"

#include <algorithm>
#include <cmath>

#include "engine/base/format.h"

namespace edgedec::engine {
namespace {

constexpr int kMeasured[] = {1, 2, 4, 8, 16};  // tokens; the last is the longest pass that one sequence verifies
constexpr int kRounds = 3, kMostRounds = 9;
constexpr double kEnoughS = 0.5;  // more than the fewest rounds are made only while they are quicker than this
constexpr double kQuietS = 1.0;

std::vector<int> sizes_for(const Forward& forward) {
  const int64_t most = std::min(forward.capacity(), forward.max_pass());
  std::vector<int> sizes;
  for (int size : kMeasured)
    if (size <= most) sizes.push_back(size);
  return sizes;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

// Passes over an empty KV cache, timed.
class TimedPasses {
 public:
  TimedPasses(Forward& forward, Clock& clock, Notice* notice)
      : forward_(forward), clock_(clock), notice_(notice), started_(clock.now()), spoken_(started_),
        tokens_(kMeasured[std::size(kMeasured) - 1], 0) {}

  double elapsed() { return clock_.now() - started_; }

  // The seconds of a pass over `size` tokens, all rows wanted.
  Status run(int size, double* seconds) {
    EDGEDEC_TRY(forward_.rewind(0));
    const double began = clock_.now();
    EDGEDEC_TRY(forward_.extend(Span<const int32_t>(tokens_).first(static_cast<size_t>(size)), {}, Rows::all(), &head_));
    *seconds = clock_.now() - began;
    return {};
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
  HeadRows head_;
};

}  // namespace

Status measure_costs(Forward& forward, Clock& clock, Notice* notice, Points* seconds) {
  TimedPasses timed(forward, clock, notice);
  std::vector<int> sizes = sizes_for(forward);
  sizes.erase(sizes.begin());
  std::vector<std::vector<double>> ratios(sizes.size());
  std::vector<double> ones(1);
  EDGEDEC_TRY(timed.run(1, &ones[0]));
  for (int turn = 0; turn < kMostRounds; ++turn) {
    if (turn >= kRounds && timed.elapsed() > kEnoughS) break;
    for (size_t place = 0; place < sizes.size(); ++place) {
      double several, one;
      EDGEDEC_TRY(timed.run(sizes[place], &several));
      EDGEDEC_TRY(timed.run(1, &one));
      ratios[place].push_back(2.0 * several / (ones.back() + one));
      ones.push_back(one);
      timed.report((turn + static_cast<double>(place + 1) / static_cast<double>(sizes.size())) / kRounds);
    }
    if (sizes.empty()) EDGEDEC_TRY(timed.run(1, &ones.emplace_back()));
  }
  timed.conclude();
  EDGEDEC_TRY(forward.rewind(0));
  const double plain = median(ones);
  seconds->assign(1, {1, plain});
  for (size_t place = 0; place < sizes.size(); ++place) seconds->emplace_back(sizes[place], plain * median(ratios[place]));
  return {};
}

Status PassCosts::know(Forward& forward, const CostFile* file, Clock& clock, Notice* notice, bool again) {
  file_ = file;
  kept_.reset();
  const std::optional<KeptCosts> found = file && !again ? file->read() : std::nullopt;
  const std::string& name = forward.spec().name;
  if (found && found->seconds.back().first >= sizes_for(forward).back()) {
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
