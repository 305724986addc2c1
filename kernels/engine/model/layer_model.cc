#include "engine/model/layer_model.h"

#include <algorithm>

#include "core/draft/head_drafter.h"
#include "core/memory/cache_book.h"
#include "core/memory/footprint.h"
#include "engine/model/kv_memory.h"
#include "engine/model/session.h"

namespace edgedec::engine {

// One sequence over a LayerModel.
class OnnxLayerForward final : public LayerForward {
 public:
  OnnxLayerForward(const LayerModel& model, const LayerSizes& sizes, KvMemory kv, Ledger* ledger)
      : LayerForward(sizes),
        model_(model),
        kv_(std::move(kv)),
        book_(sizes.capacity),
        buffers_(model.runtime_, model.session_.get(), ledger),
        taps_(buffers_.input<float>("taps", StepBuffers::kCommitted, sizes.longest, sizes.width)),
        states_(buffers_.input<float>("states", StepBuffers::kDrafted, sizes.longest, sizes.hidden)),
        tokens_(integers("tokens", StepBuffers::kTokens)),
        positions_(integers("positions", StepBuffers::kTokens)),
        parents_(integers("parents", StepBuffers::kTokens)),
        rows_(integers("rows", StepBuffers::kRows)),
        length_(integers("length", StepBuffers::kOne)),
        keep_(model.graph_.trims ? buffers_.input<int64_t>("keep", StepBuffers::kKept, model.graph_.facts.ids) : nullptr),
        outputs_(&buffers_, sizes.longest, model.graph_.facts.head_k, StepBuffers::kTokens, sizes.longest, sizes.hidden) {
    for (const auto& [name, table] : model.graph_.tables) model.tables_.share(name, table, &buffers_);
    const KvPages& whole = kv_.whole();
    buffers_.share("kv_cache", whole.data(), ort::kFloat16, 2, {whole.shape(), whole.shape() + 5});
  }

  Status lease() {
    const ModelSpec spec = model_.graph_.facts.spec(sizes().capacity);
    return buffers_.lease(scratch_bytes(spec, model_.threads_, sizes().longest, sizes().capacity, 0));
  }

 private:
  int64_t* integers(const char* name, StepBuffers::Count what) {
    return buffers_.input<int64_t>(name, what, sizes().longest);
  }

  Status compute(const LayerPass& pass, HeadPass* found) override {
    const auto count = static_cast<int64_t>(pass.tokens.size()), rows = static_cast<int64_t>(pass.rows.size());
    const auto committed = static_cast<int64_t>(pass.taps.size()) / sizes().width;
    const auto drafted = static_cast<int64_t>(pass.states.size()) / sizes().hidden;
    if (committed + drafted != count || count > sizes().longest || rows > count)
      return {Code::kUsage, "a pass of a drafter's layer has other states than tokens"};
    EDGEDEC_TRY(book_.plan(count, pass.parents, &planned_));
    EDGEDEC_TRY(kv_.use());
    std::copy(pass.tokens.begin(), pass.tokens.end(), tokens_);
    std::copy(planned_.positions.begin(), planned_.positions.end(), positions_);
    std::copy(planned_.parents.begin(), planned_.parents.end(), parents_);
    std::copy(pass.rows.begin(), pass.rows.end(), rows_);
    std::copy(pass.taps.begin(), pass.taps.end(), taps_);
    std::copy(pass.states.begin(), pass.states.end(), states_);
    length_[0] = planned_.start;
    const Span<const int64_t> keep = keep_ && rows ? pass.keep : Span<const int64_t>();
    std::copy(keep.begin(), keep.end(), keep_);
    EDGEDEC_TRY(buffers_.run({1, count, committed, drafted, rows, static_cast<int64_t>(keep.size())}));
    const LayerGraph& graph = model_.graph_;
    EDGEDEC_TRY(outputs_.take(pass.rows, graph.predicted, graph.trims, graph.name, found));
    book_.append(planned_);
    return {};
  }

  Status forget(int64_t length) override { return book_.rewind(length); }

  const LayerModel& model_;
  KvMemory kv_;
  CacheBook book_;
  PlannedPass planned_;
  StepBuffers buffers_;
  float *taps_, *states_;
  int64_t *tokens_, *positions_, *parents_, *rows_, *length_, *keep_;
  HeadOutputs outputs_;
};

Status LayerModel::open(const Runtime& runtime, const std::string& folder, const std::string& target, LayerGraph graph,
                        int threads, std::unique_ptr<LayerModel>* model) {
  std::unique_ptr<LayerModel> made(new LayerModel(std::move(graph)));
  made->runtime_ = runtime;
  made->threads_ = threads;
  std::vector<TableFacts> tables;
  for (const auto& [name, table] : made->graph_.tables) tables.push_back(table);
  EDGEDEC_TRY(made->tables_.open(target, tables, made->graph_.name));
  EDGEDEC_TRY(open_session(runtime, folder, made->graph_.file, {threads, true}, &made->session_));
  EDGEDEC_TRY(made->check());
  *model = std::move(made);
  return {};
}

// kBadFile unless the graph has the inputs and outputs that are stated.
Status LayerModel::check() const {
  DrafterPorts ports;
  EDGEDEC_TRY(ports.read(runtime_, session_.get()));
  const LayerFacts& facts = graph_.facts;
  const Ports::Port* cache = ports.in.find("kv_cache");
  bool right = ports.in.all.size() == 8 + graph_.tables.size() + graph_.trims && ports.are_rows({"taps"}, graph_.sizes.width) &&
               ports.are_rows({"states", "out"}, facts.hidden) && ports.has_head(facts.head_k) &&
               ports.are_vectors({"tokens", "positions", "parents", "rows", "length"}) &&
               (!graph_.trims || ports.are_vectors({"keep"}));
  for (const auto& [name, table] : graph_.tables) right = right && ports.has_table(name, table);
  right = right && cache && cache->dims.size() == 5 && cache->dims[0] == 1 && cache->dims[1] == 2 &&
          cache->dims[2] == facts.kv_heads;
  if (right) return {};
  return {Code::kBadFile, std::string(graph_.file) + " of the drafter is not " + graph_.described, kMakeAgain};
}

Status LayerModel::forward(int64_t capacity, Ledger* ledger, std::unique_ptr<LayerForward>* forward) const {
  KvMemory kv;
  EDGEDEC_TRY(kv.allocate(graph_.facts.spec(capacity), capacity, KvType::kFp16, 0, ledger));
  LayerSizes sizes = graph_.sizes;
  sizes.capacity = capacity;
  sizes.longest = std::min(kLongestOfLayer, capacity);
  sizes.slot = kv.reserved() / capacity;
  auto made = std::make_unique<OnnxLayerForward>(*this, sizes, std::move(kv), ledger);
  EDGEDEC_TRY(made->lease());
  *forward = std::move(made);
  return {};
}

int64_t layer_bytes(const LayerGraph& graph, int threads, int64_t context) {
  const ModelSpec spec = graph.facts.spec(context);
  const int64_t longest = std::min(kLongestOfLayer, context);
  const int64_t buffers = longest * (4 * (graph.sizes.width + 3 * spec.hidden_size + 4 * spec.head_k + 4) + 5 * 8);
  const int64_t waiting = static_cast<int64_t>(HeadDrafter::kMostWaiting) * graph.sizes.width * 4;
  return cache_bytes(spec, context, KvType::kFp16, longest) + scratch_bytes(spec, threads, longest, context, 0) + buffers +
         waiting + (graph.trims ? 8 * graph.facts.ids : 0);
}

}  // namespace edgedec::engine
