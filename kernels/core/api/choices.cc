// C ABI of the choices, for the drafters in Python. It is no part of edgedec.h.
#include <algorithm>

#include "common/capi.h"
#include "core/draft/choices.h"

using namespace edgedec::engine;

namespace {

// As edgedec/draft/native.py packs it.
struct Drawing {
  uint64_t seed;
  int64_t position, top_k;
  double temperature, top_p, min_p, typical, eta, top_h;
};

// Ids of the target, one for each of the drafter's that can be drawn.
class Listed final : public ToTargetId {
 public:
  Listed(Span<const int32_t> ids, const int32_t* theirs) : ids_(ids), theirs_(theirs) {}
  int32_t to_target_id(int32_t id) override { return theirs_[std::find(ids_.begin(), ids_.end(), id) - ids_.begin()]; }

 private:
  Span<const int32_t> ids_;
  const int32_t* theirs_;
};

DrawParams params_of(const Drawing& drawing) {
  DrawParams params;
  params.seed = drawing.seed;
  params.top_k = drawing.top_k;
  params.temperature = drawing.temperature;
  params.top_p = drawing.top_p;
  params.min_p = drawing.min_p;
  params.typical = drawing.typical;
  params.eta = drawing.eta;
  params.top_h = drawing.top_h;
  return params;
}

}  // namespace

// How many of `count` logits, the best first, can be drawn at most.
EDGEDEC_EXPORT int edgedec_draft_drawable(const Drawing* drawing, int count, const double* values) {
  Choices choices;
  return static_cast<int>(choices.drawable({values, static_cast<size_t>(count)}, params_of(*drawing)));
}

// The choices among `count` logits, the best first, of `ids`; those that can be drawn are `theirs` to the target. Writes at
// most Choices::kFew, best first, and returns how many.
EDGEDEC_EXPORT int edgedec_draft_choices(const Drawing* drawing, int count, const double* values, const int32_t* ids,
                                         const int32_t* theirs, int32_t* tokens, double* probs) {
  const Span<const int32_t> mine(ids, static_cast<size_t>(count));
  Listed listed(mine, theirs);
  std::vector<Choice> found;
  Choices choices;
  choices.draw({values, mine.size()}, mine, params_of(*drawing), drawing->position, listed, &found);
  for (size_t at = 0; at < found.size(); ++at) {
    tokens[at] = found[at].token;
    probs[at] = found[at].prob;
  }
  return static_cast<int>(found.size());
}
