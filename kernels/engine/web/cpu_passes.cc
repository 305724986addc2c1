#include "engine/web/cpu_passes.h"

#include <algorithm>

namespace edgedec::engine {
namespace {

void want(Span<const int> layers, LayerStates* outs) {
  outs->layers.assign(layers.begin(), layers.end());
  outs->rows.resize(std::max(outs->rows.size(), outs->layers.size()));
}

}  // namespace

Status CpuPasses::peek(const PlannedPass& placed, Span<const int32_t> tokens, LayerSubset layers, CpuPass pass) {
  if (!follows(layers)) forget();
  std::vector<int> wanted;
  for (int tap : tapped_)
    if (tap < layers.exit - 1) wanted.push_back(tap);
  wanted.push_back(layers.exit - 1);
  want(wanted, &outs_);
  std::vector<int32_t> all = peeked_;
  all.insert(all.end(), tokens.begin(), tokens.end());
  parents_.assign(placed.parents.begin(), placed.parents.end());
  const Span<const int32_t> chosen = pass.chosen;
  pass.tokens = all;
  pass.positions = placed.positions;
  pass.parents = parents_;
  pass.length = static_cast<size_t>(placed.start);
  pass.done = peeked_.size();
  pass.chosen = {};
  pass.outs = &outs_;
  EDGEDEC_TRY(model_.run(pass, 0, layers.exit));
  const std::vector<float>& rows = *outs_.of(layers.exit - 1);
  pass.chosen = chosen;
  if (layers.resume) {
    std::vector<int32_t> among;
    for (int32_t row : chosen) among.push_back(row + static_cast<int32_t>(pass.done));
    pass.chosen = among;
    pass.outs = nullptr;
    model_.enter(layers.resume, rows, 0);
    EDGEDEC_TRY(model_.run(pass, layers.resume, 0));
  } else {
    pass.outs = nullptr;
    EDGEDEC_TRY(model_.end(pass, rows));
  }
  below_.layers = outs_.layers;
  below_.rows.resize(std::max(below_.rows.size(), outs_.layers.size()));
  for (size_t at = 0; at < outs_.layers.size(); ++at)
    below_.rows[at].insert(below_.rows[at].end(), outs_.rows[at].begin(), outs_.rows[at].end());
  layers_ = layers;
  peeked_ = std::move(all);
  return {};
}

// Brings the caches to the tokens before the pass.
void CpuPasses::follow(const edgedec_web_pass& pass) {
  CpuCaches& caches = model_.caches();
  caches.move({{pass.from, pass.from + pass.moves}, {pass.to, pass.to + pass.moves}});
  if (pass.restore == EDGEDEC_WEB_RESTORE) caches.states.restore(pass.applied);
  if (pass.restore == EDGEDEC_WEB_CLEAR) caches.states.clear();
}

// Counts the tokens of the pass, from the first on, that are the peeked ones below the same parents.
size_t CpuPasses::shared(const edgedec_web_pass& pass) const {
  const size_t most = std::min(peeked_.size(), size_t{pass.tokens});
  size_t at = 0;
  while (at < most && pass.token_ids[at] == peeked_[at] && pass.parents[at] == static_cast<int>(at) - 1) ++at;
  return at;
}

Status CpuPasses::run(const edgedec_web_pass& pass, Span<const int> taps, Span<const int64_t> keep, std::vector<float>* hidden) {
  follow(pass);
  tapped_.assign(taps.begin(), taps.end());
  std::sort(tapped_.begin(), tapped_.end());
  tapped_.erase(std::unique(tapped_.begin(), tapped_.end()), tapped_.end());
  size_t count = shared(pass);
  for (int tap : tapped_)
    if (tap < layers_.exit && !below_.of(tap)) count = 0;  // the peek did not know that they would be wanted
  const size_t tokens = pass.tokens;
  positions_.assign(pass.positions, pass.positions + tokens);
  parents_.assign(pass.parents, pass.parents + tokens);
  CpuPass own;
  own.tokens = {pass.token_ids, tokens};
  own.positions = positions_;
  own.parents = parents_;
  own.length = pass.length;
  own.applied = pass.applied;
  own.chosen = {pass.chosen, pass.rows};
  own.keep = keep;
  own.inverse = pass.inverse;
  own.result = {pass.values, pass.ids, pass.logsumexp, pass.entropy, pass.logits};
  want(tapped_, &outs_);
  own.outs = tapped_.empty() ? nullptr : &outs_;
  if (count) {
    own.done = count;
    EDGEDEC_TRY(model_.run(own, 0, layers_.exit));
    own.done = 0;
    const std::vector<float>& warm = *below_.of(layers_.exit - 1);
    model_.enter(layers_.exit, Span<const float>(warm).first(count * model_.width()), tokens - count);
    EDGEDEC_TRY(model_.run(own, layers_.exit, 0));
  } else {
    EDGEDEC_TRY(model_.run(own));
  }
  if (pass.keep) model_.caches().states.keep(pass.keep);
  join(count, tokens, taps, hidden);
  forget();
  return {};
}

// Puts the outputs of layers side by side, those of peeked tokens first.
void CpuPasses::join(size_t done, size_t tokens, Span<const int> taps, std::vector<float>* hidden) const {
  const size_t width = model_.width();
  hidden->clear();
  for (size_t token = 0; token < tokens; ++token)
    for (int tap : taps) {
      const bool below = tap < layers_.exit && token < done;
      const std::vector<float>& rows = *(below ? below_ : outs_).of(tap);
      const size_t before = tap < layers_.exit && !below ? done : 0;
      const float* from = rows.data() + (token - before) * width;
      hidden->insert(hidden->end(), from, from + width);
    }
}

void CpuPasses::forget() {
  peeked_.clear();
  layers_ = {};
  below_.clear();
}

}  // namespace edgedec::engine
