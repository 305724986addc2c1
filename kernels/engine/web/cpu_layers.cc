#include "engine/web/cpu_layers.h"

#include <algorithm>
#include <cmath>

#include "core/memory/cache_book.h"
#include "engine/bundle/manifest.h"

namespace edgedec::engine {
namespace {

constexpr const char* kMakeAgain = "make the drafter again, or remove it";

// The ids that a head predicts, of which a row has `k`.
struct Predicted {
  int64_t ids, k;
  const char* name;  // of the drafter
};

// Makes room for rows, and lets the pass write there.
void take_rows(size_t rows, const Predicted& of, HeadRows* found, CpuPass* pass) {
  const auto k = static_cast<size_t>(of.k);
  found->rows = rows;
  found->k = k;
  found->values.assign(rows * k, 0.0f);
  found->ids.assign(rows * k, -1);
  found->logsumexp.assign(rows, 0.0f);
  found->entropy.assign(rows, 0.0f);
  pass->result = {found->values.data(), found->ids.data(), found->logsumexp.data(), found->entropy.data(), nullptr};
}

// kBadFile unless rows are numbers, and of ids that can be predicted; those of few ids end with -1.
Status check_rows(const HeadRows& found, const Predicted& of) {
  for (float one : found.logsumexp)
    if (!std::isfinite(one)) return {Code::kBadFile, std::string(of.name) + " computes values that are not numbers", kMakeAgain};
  for (int32_t id : found.ids)
    if (id < -1 || id >= of.ids) return {Code::kBadFile, std::string(of.name) + " predicts ids outside the vocabulary", kMakeAgain};
  return {};
}

class CpuLayerForward final : public LayerForward {
 public:
  CpuLayerForward(const LayerSizes& sizes, const Predicted& predicted, std::unique_ptr<CpuCaches> caches,
                  std::unique_ptr<CpuModel> model)
      : LayerForward(sizes), predicted_(predicted), caches_(std::move(caches)), model_(std::move(model)), book_(sizes.capacity) {}

 private:
  Status compute(const LayerPass& pass, HeadPass* found) override {
    const size_t count = pass.tokens.size();
    const size_t committed = pass.taps.size() / static_cast<size_t>(sizes().width);
    const size_t drafted = pass.states.size() / static_cast<size_t>(sizes().hidden);
    if (committed + drafted != count || static_cast<int64_t>(count) > sizes().longest || pass.rows.size() > count)
      return {Code::kUsage, "a pass of a drafter's layer has other states than tokens"};
    EDGEDEC_TRY(book_.plan(static_cast<int64_t>(count), pass.parents, &planned_));
    parents_.assign(planned_.parents.begin(), planned_.parents.end());
    CpuPass own;
    own.tokens = pass.tokens;
    own.positions = planned_.positions;
    own.parents = parents_;
    own.length = static_cast<size_t>(planned_.start);
    own.chosen = {pass.rows.data(), pass.rows.size()};
    own.keep = pass.rows.empty() ? Span<const int64_t>() : pass.keep;
    own.taps = pass.taps;
    own.states = pass.states;
    take_rows(pass.rows.size(), predicted_, &found->rows, &own);
    EDGEDEC_TRY(model_->run(own));
    EDGEDEC_TRY(check_rows(found->rows, predicted_));
    found->states.assign(model_->states().begin(), model_->states().end());
    book_.append(planned_);
    return {};
  }

  Status forget(int64_t length) override { return book_.rewind(length); }

  const Predicted predicted_;
  std::unique_ptr<CpuCaches> caches_;
  std::unique_ptr<CpuModel> model_;
  CacheBook book_;
  PlannedPass planned_;
  std::vector<int64_t> parents_;
};

class CpuAssistantSteps final : public AssistantSteps {
 public:
  CpuAssistantSteps(const AssistantSizes& sizes, const Predicted& predicted, AwaitedForward& target, std::unique_ptr<CpuModel> model)
      : AssistantSteps(sizes), predicted_(predicted), target_(target), model_(std::move(model)) {}

  Status look(int64_t* length, int64_t* slots) override {
    target_.settle();
    *length = *slots = target_.length();
    return {};
  }

 private:
  Status compute(const AssistantStep& step, HeadPass* found) override {
    const int64_t parent = kRoot;
    const int32_t row = 0;
    CpuPass own;
    own.tokens = {&step.token, 1};
    own.positions = {&step.position, 1};
    own.parents = {&parent, 1};
    own.length = static_cast<size_t>(step.slots - 1);  // the token's slot holds the one before
    own.chosen = {&row, 1};
    own.taps = step.tap;
    own.states = step.state;
    take_rows(1, predicted_, &found->rows, &own);
    EDGEDEC_TRY(model_->run(own));
    EDGEDEC_TRY(check_rows(found->rows, predicted_));
    found->states.assign(model_->states().begin(), model_->states().end());
    return {};
  }

  const Predicted predicted_;
  AwaitedForward& target_;
  std::unique_ptr<CpuModel> model_;
};

}  // namespace

Status open_layer(const CpuFiles& files, const LayerGraph& graph, int64_t capacity, std::unique_ptr<LayerForward>* made,
                  int64_t* bytes) {
  CpuShape shape = CpuShape::of(graph.facts.spec(capacity));
  shape.vocabulary = graph.predicted;
  shape.taps = static_cast<size_t>(graph.sizes.width);
  shape.hidden = static_cast<size_t>(graph.sizes.hidden);
  LayerSizes sizes = graph.sizes;
  sizes.capacity = capacity;
  sizes.longest = std::min(kLongestOfLayer, capacity);
  auto caches = std::make_unique<CpuCaches>();
  std::unique_ptr<CpuModel> model;
  EDGEDEC_TRY(caches->allocate(shape, capacity, KvType::kFp16));
  EDGEDEC_TRY(CpuModel::open(files, shape, static_cast<size_t>(sizes.longest), caches.get(), &model));
  sizes.slot = caches->slot_bytes();
  *bytes = model->weight_bytes() + model->pass_bytes() + sizes.slot * capacity;
  *made = std::make_unique<CpuLayerForward>(sizes, Predicted{graph.predicted, graph.facts.head_k, graph.name}, std::move(caches),
                                            std::move(model));
  return {};
}

Status open_assistant(const CpuFiles& files, const AssistantFacts& facts, const CpuShape& target, CpuCaches* caches,
                      AwaitedForward& forward, std::unique_ptr<AssistantSteps>* made, int64_t* bytes) {
  CpuShape shape;
  shape.vocabulary = target.vocabulary;
  shape.scored = facts.ids;
  shape.k = facts.head_k;
  shape.keys = target.keys;
  shape.lent = true;
  shape.taps = shape.hidden = static_cast<size_t>(facts.target_hidden);
  std::unique_ptr<CpuModel> model;
  EDGEDEC_TRY(CpuModel::open(files, shape, 1, caches, &model));
  AssistantSizes sizes;
  sizes.hidden = facts.target_hidden;
  sizes.weights = file_size(path_in(files.folder, kWeightsFile)) - facts.head_bytes * (facts.ids - facts.scored) / facts.ids;
  for (size_t kind = 0; kind < std::min<size_t>(shape.keys.size(), 2); ++kind) {
    if (!model->attends_to(kind)) continue;
    sizes.slot[kind] = caches->layer_bytes(kind);
    sizes.most[kind] = forward.capacity();
  }
  *bytes = model->weight_bytes() + model->pass_bytes();
  *made = std::make_unique<CpuAssistantSteps>(sizes, Predicted{facts.ids, facts.head_k, "the assistant"}, forward, std::move(model));
  return {};
}

}  // namespace edgedec::engine
