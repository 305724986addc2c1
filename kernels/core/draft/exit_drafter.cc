#include "core/draft/exit_drafter.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/format.h"

namespace edgedec::engine {
namespace {

constexpr int kCalibratedSteps = 8;
constexpr double kMemory = 200.0;       // tokens after which older ones fade: text changes
constexpr double kLastIsRight = 0.9;    // first guess of how often the exit after all layers is right
constexpr double kLastPromises = 0.95;  // the same with a trimmed head, when an exit is chosen
constexpr double kWorth = 1.1;  // least speed over plain decoding that an exit has to promise, so that it is tried
constexpr double kLeastSaved = 0.5;
constexpr int kChain = 8;  // longest draft whose speed is promised

// How often an exit was right, by the probability that its head gave a token. `first`: the guess before any token; none:
// the head's own probability.
Calibration calibration(std::optional<double> first) {
  std::vector<double> guesses;
  for (int step = 0; step <= kCalibratedSteps; ++step) guesses.push_back(first ? *first : (step + 0.5) / (kCalibratedSteps + 1));
  return Calibration(std::move(guesses), kPriorWeight, kMemory);
}

}  // namespace

std::string layers_name(LayerSubset layers) {
  if (!layers.resume) return "exit-" + decimal(layers.exit);
  return "skip-" + decimal(layers.exit) + "-" + decimal(layers.resume);
}

LayerSubset named_layers(std::string_view name) {
  constexpr int kMost = 9999;
  std::vector<int> numbers;
  for (char one : name) {
    if (one == '-') numbers.push_back(0);
    else if (one >= '0' && one <= '9' && !numbers.empty() && numbers.back() <= kMost) numbers.back() = 10 * numbers.back() + one - '0';
  }
  numbers.resize(std::max<size_t>(numbers.size(), 2));
  const LayerSubset found = {numbers[0], numbers[1]};
  return numbers[0] <= kMost && numbers[1] <= kMost && layers_name(found) == name ? found : LayerSubset();
}

ExitDrafter::ExitDrafter(DraftForward& forward, ExitSetting setting, std::shared_ptr<TrimmedHead> trimmed)
    : setting_(std::move(setting)),
      name_(layers_name(setting_.layers)),
      forward_(forward),
      trimmed_(std::move(trimmed)),
      // After all layers the head's doubts are the target's own.
      unsure_nats_(setting_.layers.exit == setting_.last ? std::numeric_limits<float>::infinity() : setting_.doubts.unsure_nats),
      sure_(calibration(setting_.layers.exit == setting_.last ? std::optional<double>(kLastIsRight) : std::nullopt)) {}

Status ExitDrafter::begin(Span<const int32_t> tokens, size_t) {
  text_.assign(tokens.begin(), tokens.end());
  if (trimmed_) {
    trimmed_->begin();
    trimmed_->follow(text_);
  }
  history_ = DrawHistory(params_, tokens);
  stated_.reset();
  return {};
}

Status ExitDrafter::commit(Span<const int32_t> tokens) {
  score(tokens);
  for (int32_t token : tokens) history_.add(token);
  text_.insert(text_.end(), tokens.begin(), tokens.end());
  if (trimmed_) trimmed_->follow(text_);
  return {};
}

Status ExitDrafter::propose(int limit, double floor, Source self, DraftTree* tree) {
  peeked_ = 0;
  stated_.reset();
  if (limit < 1 || forward_.length() != static_cast<int64_t>(text_.size()) - 1) return {};
  if (forward_.has_peeked()) EDGEDEC_TRY(forward_.rewind(forward_.length()));  // of a draft that no pass followed
  EDGEDEC_TRY(extend_chain(limit, floor));
  stated_ = text_.size();
  for (size_t at = 0; at < tokens_.size(); ++at)
    tree->add(tokens_[at], static_cast<int>(at) - 1, sure_.of(probs_[at]), self);
  return {};
}

// Finds tokens to follow the last committed one.
Status ExitDrafter::extend_chain(int limit, double floor) {
  tokens_.clear();
  probs_.clear();
  Rows rows = Rows::last();
  if (trimmed_) rows.keep = trimmed_->keep();
  Itself itself;
  double reach = 1.0;
  int32_t token = text_.back();
  const std::vector<int32_t>& ends = setting_.ends;
  while (static_cast<int>(tokens_.size()) < limit && std::find(ends.begin(), ends.end(), token) == ends.end()) {
    EDGEDEC_TRY(step(token, rows));
    if (head_.entropy[0] > unsure_nats_) break;
    const DrawHistory history = history_.after(tokens_);
    const auto position = static_cast<int64_t>(text_.size() + tokens_.size());
    EDGEDEC_TRY(choices_.find(head_, 0, params_, position, history, itself, &found_));
    if (found_.empty() || found_[0].prob <= 0.0) break;
    token = found_[0].token;
    tokens_.push_back(token);
    probs_.push_back(found_[0].prob);
    reach *= sure_.of(found_[0].prob);
    if (reach < floor) break;
  }
  return {};
}

// Peeks at what follows a token.
Status ExitDrafter::step(int32_t token, const Rows& rows) {
  EDGEDEC_TRY(forward_.peek({&token, 1}, setting_.layers, rows, &head_));
  ++peeked_;
  const double kept = rows.keep.empty() ? 1.0 : static_cast<double>(rows.keep.size()) / static_cast<double>(setting_.vocabulary);
  const double table = setting_.table_bytes ? static_cast<double>(setting_.table_bytes) : (1.0 - kept) * setting_.head_bytes;
  work_.add(setting_.layer_bytes + kept * setting_.head_bytes, table);
  return {};
}

// Compares the last draft with the tokens that came; those behind the first wrong one do not count.
void ExitDrafter::score(Span<const int32_t> committed) {
  const std::optional<size_t> stated = std::exchange(stated_, std::nullopt);
  if (!stated || *stated != text_.size()) return;
  for (size_t at = 0; at < std::min(tokens_.size(), committed.size()); ++at) {
    sure_.count(probs_[at], tokens_[at] == committed[at]);
    if (tokens_[at] != committed[at]) return;
  }
}

size_t ExitDrafter::nbytes() const {
  return text_.capacity() * sizeof(int32_t) + (trimmed_ ? trimmed_->nbytes() : 0);
}

ReadBytes ReadBytes::of(const ReadFacts& facts) {
  const auto layers = static_cast<double>(facts.layers);
  const double each = facts.weights / (layers * facts.layer + facts.head);
  const double cache = facts.kv_cache / 2 / layers;
  return {each * facts.layer + cache, each * facts.head};
}

double promised_speed(int layers, int last, bool whole, double step) {
  const double right = whole ? kLastPromises : static_cast<double>(layers) / last;
  double best = 0.0;
  for (int length = 1; length <= kChain; ++length)
    best = std::max(best, chain_efficiency(right, length) / (1.0 + length * step));
  return best;
}

double least_saved() { return kLeastSaved; }

std::vector<int> promising_exits(Span<const int> exits, const ReadBytes& bytes, double kept) {
  const int last = exits[exits.size() - 1];
  const double whole = last * bytes.layer + bytes.head;
  struct Promise {
    int exit;
    double speed;
  };
  std::vector<Promise> promises;
  double least = kWorth;
  for (size_t at = exits.size(); at-- > 0;) {
    const int exit = exits[at];
    const double share =
        last * bytes.layer != 0.0 ? (exit * bytes.layer + kept * bytes.head) / whole : static_cast<double>(exit) / last;
    promises.push_back({exit, promised_speed(exit, last, exit == last, share)});
    if (exit == last) least = std::max(least, promises.back().speed);
  }
  std::stable_sort(promises.begin(), promises.end(), [](const Promise& a, const Promise& b) { return a.speed > b.speed; });
  std::vector<int> chosen;
  for (const Promise& one : promises)
    if (one.speed >= least) chosen.push_back(one.exit);
  return chosen;
}

}  // namespace edgedec::engine
