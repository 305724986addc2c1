#include "engine/model/assistant_model.h"

#include <algorithm>

#include "engine/bundle/manifest.h"
#include "engine/model/session.h"

namespace edgedec::engine {
namespace {

constexpr const char* kAssistant = "the assistant";
constexpr const char* kAssistantGraph = "assistant.onnx";
constexpr const char* kAssistantCaches[] = {"kv_cache", "kv_window"};

int64_t key_bytes(const LentKeys& keys) { return keys.shape[1] * keys.shape[2] * keys.shape[4] * 2; }

}  // namespace

class OnnxAssistantSteps final : public AssistantSteps {
 public:
  OnnxAssistantSteps(const AssistantModel& model, const AssistantSizes& sizes, const std::vector<LentKeys>& keys,
                     const Forward& target, Ledger* ledger)
      : AssistantSteps(sizes),
        model_(model),
        target_(target),
        buffers_(model.runtime_, model.session_.get(), ledger),
        tap_(buffers_.input<float>("taps", StepBuffers::kCommitted, 1, sizes.hidden)),
        state_(buffers_.input<float>("states", StepBuffers::kDrafted, 1, sizes.hidden)),
        token_(buffers_.input<int64_t>("tokens", StepBuffers::kOne, 1)),
        position_(buffers_.input<int64_t>("positions", StepBuffers::kOne, 1)),
        length_(buffers_.input<int64_t>("length", StepBuffers::kOne, 1)),
        outputs_(&buffers_, 1, model.facts_.head_k, StepBuffers::kOne, 1, sizes.hidden) {
    *buffers_.input<int64_t>("parents", StepBuffers::kOne, 1) = kRoot;
    model.table_.share("table", model.facts_.table, &buffers_);
    for (const LentKeys& one : keys) buffers_.share(one.name, one.data, ort::kFloat16, 2, {one.shape, one.shape + 5});
  }

  Status lease(int64_t slots) { return buffers_.lease(model_.scratch(slots)); }

  Status look(int64_t* length, int64_t* slots) override {
    *length = *slots = target_.length();
    return {};
  }

 private:
  Status compute(const AssistantStep& step, HeadPass* found) override {
    token_[0] = step.token;
    position_[0] = step.position;
    length_[0] = step.slots - 1;
    std::copy(step.tap.begin(), step.tap.end(), tap_);
    std::copy(step.state.begin(), step.state.end(), state_);
    const int64_t committed = !step.tap.empty();
    EDGEDEC_TRY(buffers_.run({1, 1, committed, 1 - committed, 1, 0}));
    const int row = 0;
    return outputs_.take({&row, 1}, model_.facts_.ids, true, kAssistant, found);
  }

  const AssistantModel& model_;
  const Forward& target_;
  StepBuffers buffers_;
  float *tap_, *state_;
  int64_t *token_, *position_, *length_;
  HeadOutputs outputs_;
};

Status AssistantModel::open(const Runtime& runtime, const std::string& folder, const std::string& target,
                            const AssistantFacts& facts, int threads, std::unique_ptr<AssistantModel>* model) {
  std::unique_ptr<AssistantModel> made(new AssistantModel);
  made->runtime_ = runtime;
  made->facts_ = facts;
  made->threads_ = threads;
  made->weights_ = file_size(path_in(folder, kWeightsFile));
  EDGEDEC_TRY(made->table_.open(target, {&facts.table, 1}, kAssistant));
  EDGEDEC_TRY(open_session(runtime, folder, kAssistantGraph, {threads, true}, &made->session_));
  EDGEDEC_TRY(made->check());
  *model = std::move(made);
  return {};
}

// Finds the caches that the graph reads. kBadFile unless it has the inputs and outputs that the facts state.
Status AssistantModel::check() {
  DrafterPorts ports;
  EDGEDEC_TRY(ports.read(runtime_, session_.get()));
  bool right = ports.are_rows({"taps", "states", "out"}, facts_.target_hidden) && ports.has_head(facts_.head_k) &&
               ports.are_vectors({"tokens", "positions", "parents", "length"}) && ports.has_table("table", facts_.table);
  for (const char* name : kAssistantCaches) {
    const Ports::Port* port = ports.in.find(name);
    if (!port) continue;
    right = right && port->dims.size() == 5 && *std::min_element(port->dims.begin(), port->dims.begin() + 3) > 0;
    caches_.push_back(*port);
  }
  if (right && !caches_.empty() && ports.in.all.size() == 7 + caches_.size()) return {};
  return {Code::kBadFile, std::string(kAssistantGraph) + " of the drafter is not what its manifest describes", kMakeAgain};
}

Status AssistantModel::steps(const Forward& target, Ledger* ledger, std::unique_ptr<AssistantSteps>* steps) const {
  const std::vector<LentKeys> lent = target.lent();
  std::vector<LentKeys> keys;
  AssistantSizes sizes;
  sizes.hidden = facts_.target_hidden;
  sizes.weights = weights_ - facts_.head_bytes * (facts_.ids - facts_.scored) / facts_.ids;
  int64_t most = 1;
  for (const Ports::Port& cache : caches_) {
    const auto found = std::find_if(lent.begin(), lent.end(), [&cache](const LentKeys& one) { return cache.name == one.name; });
    if (found == lent.end() || !std::equal(found->shape, found->shape + 3, cache.dims.begin()))
      return {Code::kBadFile, std::string(kAssistant) + " was made for another KV cache: " + cache.name + " has another shape"};
    sizes.slot[keys.size()] = key_bytes(*found);
    sizes.most[keys.size()] = found->shape[3];
    most = std::max(most, found->shape[3]);
    keys.push_back(*found);
  }
  auto made = std::make_unique<OnnxAssistantSteps>(*this, sizes, keys, target, ledger);
  EDGEDEC_TRY(made->lease(most));
  *steps = std::move(made);
  return {};
}

// Bytes that a step over `context` slots holds for a moment beside its results.
int64_t AssistantModel::scratch(int64_t context) const {
  const AssistantFacts& facts = facts_;
  const int64_t numbers =
      4 * facts.target_hidden + 8 * facts.hidden + 2 * facts.ffn + 3 * facts.heads * facts.head_dim;
  return 4 * (2 * numbers + 6 * facts.scored) + 32 * 4 * context * threads_;
}

int64_t AssistantModel::step_bytes(int64_t context) const {
  return scratch(context) + 4 * (5 * facts_.target_hidden + 4 * facts_.head_k + 4) + 4 * 8;
}

}  // namespace edgedec::engine
