#include "engine/model/onnx_forward.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/format.h"
#include "core/memory/sizes.h"

namespace edgedec::engine {

OnnxForward::OnnxForward(const Runtime& runtime, OrtSession* session, const ModelSpec& spec, const Exits& exits,
                         int64_t max_pass, Ledger* ledger, KvMemory kv, Lease scratch, const ExpertStore* experts)
    : kv_(std::move(kv)),
      scratch_(std::move(scratch)),
      experts_(experts),
      setting_{runtime, session, spec, exits, kv_, ledger},
      max_pass_(max_pass),
      book_(kv_.capacity(), ring_keys(spec).window, kv_.ring(), kv_.states().book()),
      passes_(setting_),
      hidden_(ledger, "hidden") {}

Status OnnxForward::check_tokens(Span<const int32_t> tokens) const {
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > max_pass_)
    return {Code::kUsage, decimal(count) + " tokens in one pass: at most " + decimal(max_pass_)};
  for (int32_t token : tokens)
    if (token < 0 || token >= spec().vocab_size)
      return {Code::kUsage, "a token is outside the vocabulary of " + decimal(spec().vocab_size)};
  return {};
}

Status OnnxForward::resolve(const Rows& rows, size_t tokens) {
  chosen_.clear();
  if (rows.which == Rows::kLast) {
    chosen_.push_back(static_cast<int>(tokens) - 1);
  } else if (rows.which == Rows::kAll) {
    chosen_.resize(tokens);
    std::iota(chosen_.begin(), chosen_.end(), 0);
  } else {
    chosen_.assign(rows.indices.begin(), rows.indices.end());
  }
  for (int row : chosen_)
    if (row < 0 || static_cast<size_t>(row) >= tokens)
      return {Code::kUsage, "row " + decimal(row) + " is outside a pass over " + decimal(uint64_t{tokens}) + " tokens"};
  return {};
}

Status OnnxForward::extend(Span<const int32_t> tokens, Span<const int> parents, const Rows& rows, HeadRows* found) {
  EDGEDEC_TRY(check_tokens(tokens));
  if (!tokens.empty()) EDGEDEC_TRY(resolve(rows, tokens.size()));
  EDGEDEC_TRY(book_.plan(static_cast<int64_t>(tokens.size()), parents, &planned_));
  EDGEDEC_TRY(kv_.use());
  const bool parts = !rows.taps.empty() || !rows.keep.empty();
  if (parts && taps().empty()) return Forward::peek(tokens, {}, rows, found);  // says so
  for (int tap : rows.taps)
    if (!std::binary_search(taps().begin(), taps().end(), tap))
      return {Code::kUsage, "the output of layer " + decimal(int64_t{tap}) + " is not to be had"};
  kv_.states().begin();
  const experts::StoreCounts before = experts_ ? experts_->counts() : experts::StoreCounts();
  const Status done = compute(tokens, rows, found);
  if (experts_) reads_ = experts_->since(before);
  if (done.ok()) {
    kv_.states().done(book_.append(planned_));
    return {};
  }
  if (StateBook* states = kv_.states().book()) {  // which the pass may have changed: back to their checkpoint
    states->lose();
    EDGEDEC_TRY(rewind(length()));
  }
  return done;
}

Status OnnxForward::compute(Span<const int32_t> tokens, const Rows& rows, HeadRows* found) {
  if (taps().empty()) return passes_.run({tokens, planned_, chosen_, rows.full, rows.temperature}, found);
  Status done = beyond_peeked(tokens, rows, found);
  forget_peeked();
  return done;
}

// Counts the tokens of the planned pass, from the first on, that are the peeked ones below the same parents.
size_t OnnxForward::shared(Span<const int32_t> tokens) const {
  const size_t most = std::min(peeked_.size(), tokens.size());
  size_t at = 0;
  while (at < most && tokens[at] == peeked_[at] && planned_.parents[at] == static_cast<int>(at) - 1) ++at;
  return at;
}

// Computes the planned pass, whose first tokens may be the peeked ones.
Status OnnxForward::beyond_peeked(Span<const int32_t> tokens, const Rows& rows, HeadRows* found) {
  size_t count = shared(tokens);
  Fed fed{tokens, planned_, chosen_, rows.full, rows.temperature};
  fed.keep = rows.keep;
  tapped_.assign(rows.taps.begin(), rows.taps.end());
  std::sort(tapped_.begin(), tapped_.end());
  tapped_.erase(std::unique(tapped_.begin(), tapped_.end()), tapped_.end());
  fed.states = tapped_;
  for (int tap : tapped_)
    if (tap < peeked_exit_ && !below_.of(tap)) count = 0;  // the peek did not know that they would be wanted
  if (count) {
    const std::vector<float>& warm = *below_.of(peeked_exit_ - 1);
    fed.tokens = tokens.from(count);
    fed.warm_exit = peeked_exit_;
    fed.warmed = count;
    fed.warm = Span<const float>(warm).first(count * static_cast<size_t>(setting_.exits.hidden_size));
  }
  EDGEDEC_TRY(passes_.run(fed, found, &states_));
  if (rows.taps.empty()) return {};
  join_states(count, tokens.size(), rows.taps, found);
  return lease_states(found);
}

// Puts the outputs of layers side by side, those of peeked tokens first.
void OnnxForward::join_states(size_t count, size_t tokens, Span<const int> taps, HeadRows* found) {
  const auto width = static_cast<size_t>(setting_.exits.hidden_size), whole = taps.size() * width;
  found->hidden.resize(tokens * whole);
  for (size_t tap = 0; tap < taps.size(); ++tap) {
    const size_t before = taps[tap] < peeked_exit_ ? count : 0;
    for (size_t token = 0; token < tokens; ++token) {
      const float* from = token < before ? below_.of(taps[tap])->data() + token * width
                                         : states_.of(taps[tap])->data() + (token - before) * width;
      std::copy(from, from + width, found->hidden.data() + token * whole + tap * width);
    }
  }
}

Status OnnxForward::lease_states(const HeadRows* found) {
  const size_t handed = found ? found->hidden.capacity() * sizeof(float) : 0;
  return hidden_.grow(static_cast<int64_t>(handed + states_.bytes() + below_.bytes()));
}

Status OnnxForward::peek(Span<const int32_t> tokens, LayerSubset layers, const Rows& rows, HeadRows* found) {
  if (setting_.exits.exits.empty()) return Forward::peek(tokens, layers, rows, found);
  const int exit = layers.exit;
  for (int one : {exit, layers.resume ? layers.resume : exit})
    if (!setting_.exits.has(one)) return {Code::kUsage, "no exit after " + decimal(int64_t{one}) + " layers"};
  if (layers.resume && layers.resume < exit)
    return {Code::kUsage, "no way back from layer " + decimal(int64_t{exit}) + " to layer " + decimal(int64_t{layers.resume})};
  if (tokens.empty()) return {Code::kUsage, "a peek needs at least one token"};
  if (exit != peeked_exit_ || layers.resume != resumed_) forget_peeked();
  const auto total = static_cast<int64_t>(peeked_.size() + tokens.size());
  if (total > max_pass_) return {Code::kUsage, decimal(total) + " peeked tokens: at most " + decimal(max_pass_)};
  EDGEDEC_TRY(check_tokens(tokens));
  EDGEDEC_TRY(resolve(rows, tokens.size()));
  EDGEDEC_TRY(book_.plan(total, {}, &planned_));
  EDGEDEC_TRY(kv_.use());
  Fed fed{tokens, planned_, {}, false, rows.temperature};
  fed.exit = exit;
  if (!layers.resume) fed.rows = chosen_, fed.full = rows.full, fed.keep = rows.keep;
  peek_states_.clear();
  for (int tap : tapped_)
    if (tap < exit - 1) peek_states_.push_back(tap);
  peek_states_.push_back(exit - 1);
  fed.states = peek_states_;
  EDGEDEC_TRY(passes_.run(fed, found, &states_));
  if (layers.resume) EDGEDEC_TRY(resume(layers.resume, fed, rows, found));
  below_.layers = states_.layers;
  below_.rows.resize(std::max(below_.rows.size(), states_.layers.size()));
  for (size_t at = 0; at < states_.layers.size(); ++at)
    below_.rows[at].insert(below_.rows[at].end(), states_.rows[at].begin(), states_.rows[at].end());
  EDGEDEC_TRY(lease_states(nullptr));
  peeked_exit_ = exit;
  resumed_ = layers.resume;
  peeked_.insert(peeked_.end(), tokens.begin(), tokens.end());
  return {};
}

// Lets the tokens of a peek `fed`, whose rows at its exit are in states_, go on above `layers` layers.
Status OnnxForward::resume(int layers, Fed fed, const Rows& rows, HeadRows* found) {
  fed.warm = *states_.of(fed.exit - 1);
  fed.warm_exit = layers;
  fed.warmed = fed.tokens.size();
  fed.tokens = {};
  fed.exit = 0;
  fed.states = {};
  fed.rows = chosen_;
  fed.full = rows.full;
  fed.keep = rows.keep;
  return passes_.run(fed, found);
}

void OnnxForward::forget_peeked() {
  peeked_.clear();
  peeked_exit_ = resumed_ = 0;
  below_.clear();
}

std::vector<LentKeys> OnnxForward::lent() const {
  std::vector<LentKeys> found;
  const auto add = [&found](const char* name, const KvPages& pages) {
    LentKeys one = {name, pages.data(), {}};
    std::copy_n(pages.shape(), 5, one.shape);
    found.push_back(one);
  };
  add("kv_cache", kv_.whole());
  if (const KvPages* rings = kv_.rings()) add("kv_window", *rings);
  return found;
}

void OnnxForward::free_logits(HeadRows* found) {
  Forward::free_logits(found);
  passes_.end_rows();
}

Status OnnxForward::rewind(int64_t length) {
  forget_peeked();
  reached_ = std::max(reached_, book_.length());
  EDGEDEC_TRY(book_.rewind(length));
  kv_.states().follow();
  if (kv_.release(book_.length(), reached_)) reached_ = book_.length();
  return {};
}

Status OnnxForward::keep_path(Span<const int> nodes) {
  forget_peeked();
  EDGEDEC_TRY(book_.keep(nodes, &moves_));
  kv_.move(moves_);
  return {};
}

Status OnnxForward::write_cache(CacheSink& sink, int64_t length) {
  const bool held = length >= 0 && length <= book_.length() && book_.reachable(length) == length;
  if (!book_.settled() || !held)
    return {Code::kUsage, "cannot write " + decimal(length) + " tokens: the cache does not hold them, or an open tree"};
  return kv_.write(sink, length, book_.oldest());
}

Status OnnxForward::read_cache(CacheSource& source, int64_t length) {
  EDGEDEC_TRY(rewind(0));
  if (!length) return {};
  Status read = read_slots(source, length);
  if (!read.ok()) {
    EDGEDEC_TRY(rewind(0));
  }
  return read;
}

Status OnnxForward::read_slots(CacheSource& source, int64_t length) {
  int64_t oldest = 0;
  EDGEDEC_TRY(book_.plan(length, {}, &planned_));
  EDGEDEC_TRY(kv_.use());
  EDGEDEC_TRY(kv_.read(source, length, &oldest));
  book_.lose(oldest);
  book_.fill(planned_);
  if (book_.reachable(length) == length) return {};
  return {Code::kBadFile, "a saved cache of " + decimal(length) + " tokens lacks some that the next one sees"};
}

}  // namespace edgedec::engine
