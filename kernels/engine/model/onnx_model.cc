#include "engine/model/onnx_model.h"

#include <algorithm>
#include <utility>

#include "common/os/files.h"
#include "common/os/process.h"
#include "engine/base/files.h"
#include "core/base/format.h"
#include "engine/bundle/manifest.h"
#include "engine/memory/own_pages.h"
#include "core/memory/sizes.h"
#include "engine/model/session.h"

namespace edgedec::engine {
Status OnnxModel::open(const Runtime& runtime, const std::string& bundle, const ModelSpec& spec, int64_t listed_weights,
                       const OpenOptions& options, std::unique_ptr<OnnxModel>* model) {
  if (options.threads < 1)
    return {Code::kUsage, "cannot run on " + decimal(options.threads) + " threads", "use at least 1"};
  std::unique_ptr<OnnxModel> made(new OnnxModel);
  made->runtime_ = runtime;
  made->spec_ = spec;
  made->threads_ = options.threads;
  const std::string weights = path_in(bundle, kWeightsFile);
  const auto table = static_cast<uint64_t>(spec.table_bytes);  // it lies first
  EDGEDEC_TRY(ExpertStore::open(weights, spec, listed_weights, options.place, &made->experts_));
  const ExpertStore* experts = made->experts();
  if (!experts) os::read_ahead(weights.c_str(), table, UINT64_MAX);
  const std::vector<os::Mapping> before = os::mapped_spans(weights);
  const char* graph = options.drafting ? kDraftingFile : kModelFile;
  SessionSetting setting{options.threads, options.spin, {}, spec.hidden_size, experts ? experts->number() : 0};
  if (options.drafting) setting.taps = options.taps;
  EDGEDEC_TRY(open_session(runtime, bundle, graph, setting, &made->session_));
  if (experts) EDGEDEC_TRY(make_own(weights, before, table, experts->direct()));
  const int64_t in_file = listed_weights - (experts ? spec.experts.nbytes : 0);
  made->weight_bytes_ = std::max(bytes_of(os::mapped_spans(weights)) - bytes_of(before), in_file);
  if (options.drafting) EDGEDEC_TRY(read_exits(runtime, made->session_.get(), spec, options.taps, &made->exits_));
  else EDGEDEC_TRY(check_shapes(runtime, made->session_.get(), spec, graph));
  *model = std::move(made);
  return {};
}

ModelMemory OnnxModel::memory() const {
  ModelMemory found = {spec_, weight_bytes_, threads_, exits_.hidden(), exits_.held()};
  if (os::knows_mapped_files()) found.weights -= spec_.table_bytes;  // its rows are read from the file
  if (!experts_) return found;
  found.slot_bytes = spec_.experts.slot_bytes;
  found.least_experts = spec_.experts.least();
  found.most_experts = experts_->most();
  return found;
}

Status OnnxModel::forward(const CacheConfig& cache, Ledger* ledger, std::unique_ptr<Forward>* forward) {
  int64_t capacity = 0;
  EDGEDEC_TRY(checked_capacity(spec_, cache.capacity, &capacity));
  const int64_t max_pass = std::min({cache.max_pass > 0 ? cache.max_pass : capacity, kMaxPassTokens, capacity});
  KvMemory kv;
  EDGEDEC_TRY(kv.allocate(spec_, capacity, cache.kv, ring_slots(spec_, capacity, max_pass, cache.kv), ledger));
  Lease scratch(ledger, "scratch");
  EDGEDEC_TRY(scratch.grow(scratch_bytes(spec_, threads_, max_pass, capacity, exits_.held())));
  *forward = std::make_unique<OnnxForward>(runtime_, session_.get(), spec_, exits_, max_pass, ledger, std::move(kv),
                                           std::move(scratch), experts_.get());
  return {};
}

}  // namespace edgedec::engine
