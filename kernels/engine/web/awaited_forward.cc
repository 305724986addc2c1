#include "engine/web/awaited_forward.h"

#include <algorithm>
#include <cmath>

#include "core/base/format.h"
#include "core/memory/sizes.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kUnknown = int64_t{1} << 62;

StateBook book_of(const ModelSpec& spec) {
  const bool applies = std::any_of(spec.states.begin(), spec.states.end(), [](const States& kind) { return kind.state; });
  return {most_undone(spec.states), applies};
}

Status damaged() {
  return {Code::kBadFile, "the model computes values that are not numbers: its weights are damaged", "pull or export the model again"};
}

}  // namespace

AwaitedForward::AwaitedForward(const ModelSpec& spec, int64_t capacity, int64_t max_pass)
    : spec_(spec), max_pass_(max_pass), states_(book_of(spec)),
      book_(capacity, 0, 0, spec.states.empty() ? nullptr : &states_) {}

Status AwaitedForward::announce(const WantedPass& wanted) {
  const size_t tokens = wanted.tokens.size();
  if (!tokens || static_cast<int64_t>(tokens) > max_pass_)
    return {Code::kUsage, decimal(uint64_t{tokens}) + " tokens in one pass: at most " + decimal(max_pass_)};
  EDGEDEC_TRY(book_.plan(static_cast<int64_t>(tokens), wanted.parents, &planned_));
  EDGEDEC_TRY(choose(wanted.rows, tokens));
  rows_ = wanted.rows;
  describe(wanted.tokens, wanted.rows.keep);
  pass_.done = static_cast<uint32_t>(begins_peeked());
  pass_.below = pass_.done ? static_cast<uint32_t>(layers_.exit) : 0;
  if (!cpu_) forget_peeked();
  cover();
  make_room(wanted.rows, wanted.found);
  return {};
}

// Describes what was planned over `tokens`.
void AwaitedForward::describe(Span<const int32_t> tokens, Span<const int64_t> keep) {
  positions_.assign(planned_.positions.begin(), planned_.positions.end());
  find_paths();
  from_.assign(moves_.from.begin(), moves_.from.end());
  to_.assign(moves_.to.begin(), moves_.to.end());
  kept_.assign(keep.begin(), keep.end());
  pass_.tokens = static_cast<uint32_t>(tokens.size());
  pass_.length = static_cast<uint32_t>(planned_.start);
  pass_.moves = static_cast<uint32_t>(from_.size());
  pass_.token_ids = tokens.data();
  pass_.positions = positions_.data();
  pass_.parents = planned_.parents.data();
  pass_.paths = paths_.data();
  pass_.chosen = chosen_.data();
  pass_.from = from_.data();
  pass_.to = to_.data();
  pass_.done = pass_.below = pass_.above = 0;
  pass_.kept = static_cast<uint32_t>(kept_.size());
  pass_.kept_ids = kept_.data();
}

// Counts the described tokens, from the first on, that were peeked elsewhere below the same parents.
size_t AwaitedForward::begins_peeked() const {
  const size_t most = std::min(peeked_.size(), size_t{pass_.tokens});
  size_t at = 0;
  while (at < most && pass_.token_ids[at] == peeked_[at] && pass_.parents[at] == static_cast<int>(at) - 1) ++at;
  return at;
}

// Says how the states get to the tokens before the pass, and whether a checkpoint of them is due behind it: where a long
// pass ends, and at the first one after a rewind. Until the pass has arrived nobody knows what they cover.
void AwaitedForward::cover() {
  if (spec_.states.empty()) return;
  StateBook after = states_;
  const bool keep = after.passed(planned_.start, static_cast<int64_t>(planned_.size()), planned_.chain) || due_;
  pass_.applied = static_cast<uint32_t>(states_.applied);
  pass_.restore = states_.applied >= covered_ ? EDGEDEC_WEB_STAY : states_.applied ? EDGEDEC_WEB_RESTORE : EDGEDEC_WEB_CLEAR;
  pass_.keep = keep && after.applied > after.checkpoint ? static_cast<uint32_t>(after.applied) : 0;
  covered_ = kUnknown;
}

Status AwaitedForward::choose(const Rows& rows, size_t tokens) {
  chosen_.clear();
  if (rows.which == Rows::kChosen) chosen_.assign(rows.indices.begin(), rows.indices.end());
  if (rows.which == Rows::kLast) chosen_.push_back(static_cast<int32_t>(tokens) - 1);
  for (size_t at = 0; rows.which == Rows::kAll && at < tokens; ++at) chosen_.push_back(static_cast<int32_t>(at));
  for (int32_t row : chosen_)
    if (row < 0 || static_cast<size_t>(row) >= tokens)
      return {Code::kUsage, "row " + decimal(int64_t{row}) + " is outside a pass over " + decimal(uint64_t{tokens}) + " tokens"};
  return {};
}

// Each token's path is its parent's and itself; its number of ancestors is its place in the path.
void AwaitedForward::find_paths() {
  const size_t tokens = planned_.size(), width = 1 + tokens;
  paths_.assign(tokens * width, 0);
  for (size_t at = 0; at < tokens; ++at) {
    uint32_t* path = paths_.data() + at * width;
    const int parent = planned_.parents[at];
    if (parent >= 0) {
      std::copy_n(paths_.data() + static_cast<size_t>(parent) * width, width, path);
      ++path[0];
    }
    path[1 + path[0]] = static_cast<uint32_t>(at);
  }
}

void AwaitedForward::make_room(const Rows& rows, HeadRows* found) {
  const size_t count = chosen_.size(), k = static_cast<size_t>(spec_.head_k), all = static_cast<size_t>(spec_.vocab_size);
  found_ = found;
  found->rows = count;
  found->k = k;
  found->vocabulary = all;
  found->temperature = rows.temperature;
  found->values.assign(count * k, 0.0f);
  found->ids.assign(count * k, -1);
  found->logsumexp.assign(count, std::nanf(""));
  found->entropy.assign(count, 0.0f);
  found->logits.resize(rows.full ? count * all : 0);
  pass_.rows = static_cast<uint32_t>(count);
  pass_.full = rows.full && count;
  pass_.k = static_cast<uint32_t>(k);
  pass_.vocabulary = static_cast<uint32_t>(all);
  pass_.inverse = 1.0f / static_cast<float>(rows.temperature);
  pass_.values = found->values.data();
  pass_.ids = found->ids.data();
  pass_.logsumexp = found->logsumexp.data();
  pass_.entropy = found->entropy.data();
  pass_.logits = pass_.full ? found->logits.data() : nullptr;
}

// Whether results are numbers, and ids of the vocabulary; rows of few ids end with -1.
bool AwaitedForward::sound(bool padded) const {
  const auto finite = [](float one) { return std::isfinite(one); };
  const auto known = [&](int32_t id) { return id >= -static_cast<int32_t>(padded) && id < spec_.vocab_size; };
  return std::all_of(found_->logsumexp.begin(), found_->logsumexp.end(), finite) &&
         std::all_of(found_->ids.begin(), found_->ids.end(), known);
}

Status AwaitedForward::arrived() {
  if (!sound(!rows_.keep.empty())) {
    if (!spec_.states.empty()) {
      states_.lose();
      EDGEDEC_TRY(rewind(length()));
    }
    return damaged();
  }
  book_.append(planned_);
  if (pass_.keep) states_.checkpoint = states_.applied;
  covered_ = states_.applied;
  due_ = false;
  moves_ = {};
  return {};
}

void AwaitedForward::lost() {
  const Status empty = rewind(0);  // a whole rewind always succeeds
  (void)empty;
  covered_ = kUnknown;
}

Status AwaitedForward::rewind(int64_t length) {
  forget_peeked();
  EDGEDEC_TRY(book_.rewind(length));
  due_ = true;
  if (!book_.length()) moves_ = {};
  return {};
}

Status AwaitedForward::keep_path(Span<const int> nodes) {
  forget_peeked();
  return book_.keep(nodes, &moves_);
}

void AwaitedForward::settle() {
  cpu_->model().caches().move(moves_);
  moves_ = {};
}

void AwaitedForward::forget_peeked() {
  if (cpu_) cpu_->forget();
  peeked_.clear();
  layers_ = {};
}

void AwaitedForward::use(std::vector<int> exits, std::function<int32_t()> peek) {
  exits_ = std::move(exits);
  wait_ = std::move(peek);
  forget_peeked();
}

void AwaitedForward::use(CpuModel& model) {
  cpu_ = std::make_unique<CpuPasses>(model);
  lost();
}

Status AwaitedForward::compute() {
  if (!cpu_) return {Code::kUsage, "the engine has no CPU passes yet", "call edgedec_web_cpu first"};
  return cpu_->run(pass_, rows_.taps, rows_.keep, &found_->hidden);
}

Status AwaitedForward::extend(Span<const int32_t> tokens, Span<const int> parents, const Rows& rows, HeadRows* found) {
  if (!cpu_) return elsewhere();
  EDGEDEC_TRY(announce({tokens, parents, rows, found}));
  EDGEDEC_TRY(compute());
  return arrived();
}

Status AwaitedForward::peek(Span<const int32_t> tokens, LayerSubset layers, const Rows& rows, HeadRows* found) {
  const Span<const int> had = exits();
  if (had.empty()) return Forward::peek(tokens, layers, rows, found);
  for (int one : {layers.exit, layers.resume ? layers.resume : layers.exit})
    if (!std::binary_search(had.begin(), had.end(), one))
      return {Code::kUsage, "no exit after " + decimal(int64_t{one}) + " layers"};
  if ((layers.resume && layers.resume < layers.exit) || tokens.empty())
    return {Code::kUsage, "a peek needs a token, and goes on above the layers that it begins with"};
  const bool follows = cpu_ ? cpu_->follows(layers) : layers.exit == layers_.exit && layers.resume == layers_.resume;
  const size_t before = follows ? peeked().size() : 0, total = before + tokens.size();
  if (static_cast<int64_t>(total) > max_pass_)
    return {Code::kUsage, decimal(uint64_t{total}) + " peeked tokens: at most " + decimal(max_pass_)};
  if (!cpu_ && rows.full) return {Code::kUsage, "a peek elsewhere returns no whole rows of logits"};
  EDGEDEC_TRY(choose(rows, tokens.size()));
  EDGEDEC_TRY(book_.plan(static_cast<int64_t>(total), {}, &planned_));
  make_room(rows, found);
  EDGEDEC_TRY(cpu_ ? peek_here(tokens, layers, rows) : peek_elsewhere(tokens, layers, rows));
  return sound(!rows.keep.empty()) ? Status() : damaged();
}

Status AwaitedForward::peek_here(Span<const int32_t> tokens, LayerSubset layers, const Rows& rows) {
  settle();
  CpuPass pass;
  pass.chosen = chosen_;
  pass.keep = rows.keep;
  pass.inverse = pass_.inverse;
  pass.result = {pass_.values, pass_.ids, pass_.logsumexp, pass_.entropy, pass_.logits};
  return cpu_->peek(planned_, tokens, layers, pass);
}

// Describes the peek, and waits until somebody else has computed it.
Status AwaitedForward::peek_elsewhere(Span<const int32_t> tokens, LayerSubset layers, const Rows& rows) {
  const size_t before = planned_.size() - tokens.size();
  peeked_.resize(before);
  peeked_.insert(peeked_.end(), tokens.begin(), tokens.end());
  layers_ = layers;
  describe(peeked_, rows.keep);
  pass_.applied = pass_.restore = pass_.keep = 0;
  pass_.done = static_cast<uint32_t>(before);
  pass_.below = static_cast<uint32_t>(layers.exit);
  pass_.above = static_cast<uint32_t>(layers.resume ? layers.resume : exits_.back());
  peeking_ = true;
  const int32_t failed = wait_();
  peeking_ = false;
  if (failed) {
    forget_peeked();
    return {Code::kBackend, "the device that computes passes has failed"};
  }
  moves_ = {};
  return {};
}

}  // namespace edgedec::engine
