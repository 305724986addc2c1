// C ABI of drafters over a layer, or an assistant, of the host.
#include <algorithm>
#include <iterator>
#include <memory>

#include "core/api/drafter_handle.h"
#include "core/api/marshal.h"
#include "core/draft/assistant_drafter.h"
#include "core/draft/mtp_drafter.h"

using namespace edgedec::engine;

namespace {

LayerSizes sizes_of(const int64_t* given) {
  LayerSizes sizes;
  int64_t* const fields[] = {&sizes.width, &sizes.hidden, &sizes.capacity, &sizes.longest, &sizes.always, &sizes.committed, &sizes.head,
                             &sizes.experts, &sizes.slot, &sizes.table, &sizes.ids, &sizes.count, &sizes.chosen};
  for (size_t at = 0; at < std::size(fields); ++at) *fields[at] = given[at];
  return sizes;
}

// Copies what a pass of the host found, and the states behind its `rows`.
void take(const edgedec_core_found& from, Span<const int> rows, int64_t hidden, HeadPass* to) {
  api::copy(api::view(from.head), &to->rows);
  to->states.clear();
  for (int row : rows) {
    const float* state = from.states + static_cast<int64_t>(row) * hidden;
    to->states.insert(to->states.end(), state, state + hidden);
  }
}

class HostLayer final : public LayerForward {
 public:
  explicit HostLayer(const edgedec_core_layer& calls) : LayerForward(sizes_of(calls.sizes)), calls_(calls) {}

 private:
  Status compute(const LayerPass& pass, HeadPass* found) override {
    edgedec_core_layer_pass& asked = *calls_.pass;
    asked.tokens = pass.tokens.data();
    asked.count = static_cast<int64_t>(pass.tokens.size());
    asked.committed = static_cast<int64_t>(pass.taps.size()) / sizes().width;
    asked.rows_count = static_cast<int64_t>(pass.rows.size());
    asked.taps = pass.taps.data();
    asked.states = pass.states.data();
    asked.parents = pass.parents.empty() ? nullptr : pass.parents.data();
    asked.rows = pass.rows.data();
    asked.trimmed = !pass.keep.empty();
    edgedec_core_found result = {};
    EDGEDEC_TRY(api::host_status(calls_.step(&result)));
    take(result, pass.rows, sizes().hidden, found);
    return {};
  }

  Status forget(int64_t length) override { return api::host_status(calls_.rewind(length)); }

  const edgedec_core_layer calls_;
};

class HostAssistant final : public AssistantSteps {
 public:
  HostAssistant(const edgedec_core_assistant& calls, const AssistantSizes& sizes) : AssistantSteps(sizes), calls_(calls) {}

  Status look(int64_t* length, int64_t* slots) override { return api::host_status(calls_.look(length, slots)); }

 private:
  Status compute(const AssistantStep& step, HeadPass* found) override {
    edgedec_core_found result = {};
    const bool first = !step.tap.empty();
    const float* given = first ? step.tap.data() : step.state.data();
    EDGEDEC_TRY(api::host_status(calls_.step(step.token, step.position, step.slots, first, given, &result)));
    const int row = 0;
    take(result, {&row, 1}, sizes().hidden, found);
    return {};
  }

  const edgedec_core_assistant calls_;
};

edgedec_core_drafter* handle_of(std::unique_ptr<Drafter> drafter) {
  auto* made = new edgedec_core_drafter;
  made->drafter = std::move(drafter);
  return made;
}

}  // namespace

void edgedec_core_drafter_layer_limits(int64_t* waiting, int64_t* fed) {
  *waiting = static_cast<int64_t>(HeadDrafter::kMostWaiting);
  *fed = static_cast<int64_t>(HeadDrafter::kMostFed);
}

edgedec_core_drafter* edgedec_core_drafter_head_new(const edgedec_core_layer* layer, const int32_t* taps, int64_t count) {
  const Span<const int32_t> layers = api::span(taps, count);
  return handle_of(std::make_unique<HeadDrafter>(std::make_unique<HostLayer>(*layer), std::vector<int>(layers.begin(), layers.end())));
}

edgedec_core_drafter* edgedec_core_drafter_mtp_new(const edgedec_core_layer* layer, int tap, const edgedec_core_trimmed* trimmed) {
  return handle_of(std::make_unique<MtpDrafter>(std::make_unique<HostLayer>(*layer), tap, trimmed ? trimmed->head : nullptr));
}

edgedec_core_drafter* edgedec_core_drafter_assistant_new(const edgedec_core_assistant* assistant, int tap) {
  AssistantSizes sizes;
  sizes.hidden = assistant->hidden;
  sizes.weights = assistant->weights;
  for (int kind = 0; kind < 2; ++kind) {
    sizes.slot[kind] = assistant->slot[kind];
    sizes.most[kind] = assistant->most[kind];
  }
  return handle_of(std::make_unique<AssistantDrafter>(std::make_unique<HostAssistant>(*assistant, sizes), tap));
}
