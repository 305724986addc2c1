// C ABI of drafters that run models, through handles: a drafter of the core over a forward of the host.
#include <algorithm>
#include <memory>

#include "core/api/bridge.h"
#include "core/api/drafter_handle.h"
#include "core/api/marshal.h"
#include "core/draft/exit_drafter.h"
#include "core/draft/model_drafter.h"

using namespace edgedec::engine;

namespace {

Doubts doubts_of(const double* given) {
  Doubts doubts;
  if (given) doubts = {static_cast<float>(given[0]), given[1]};
  return doubts;
}

}  // namespace

edgedec_core_trimmed* edgedec_core_trimmed_new(const int64_t* ids, int64_t count, double bound, double saved) {
  const Span<const int64_t> all = api::span(ids, count);
  auto kept = std::make_shared<KeptIds>(std::vector<int64_t>(all.begin(), all.end()));
  return new edgedec_core_trimmed{std::make_shared<TrimmedHead>(std::move(kept), bound, saved)};
}
edgedec_core_trimmed* edgedec_core_trimmed_again(const edgedec_core_trimmed* it, int shared) {
  return new edgedec_core_trimmed{it->head->again(shared)};
}
edgedec_core_trimmed* edgedec_core_trimmed_beside(const edgedec_core_trimmed* it) {
  return new edgedec_core_trimmed{it->head->beside()};
}
void edgedec_core_trimmed_free(edgedec_core_trimmed* it) { delete it; }
void edgedec_core_trimmed_begin(edgedec_core_trimmed* it) { it->head->begin(); }
void edgedec_core_trimmed_follow(edgedec_core_trimmed* it, const int32_t* text, int64_t count) {
  it->head->follow(api::span(text, count));
}
double edgedec_core_trimmed_outside(const edgedec_core_trimmed* it) { return it->head->outside(); }
int64_t edgedec_core_trimmed_bytes(const edgedec_core_trimmed* it) { return static_cast<int64_t>(it->head->nbytes()); }
int64_t edgedec_core_trimmed_most(const edgedec_core_trimmed* it) { return static_cast<int64_t>(it->head->kept().most()); }
const int64_t* edgedec_core_trimmed_keep(const edgedec_core_trimmed* it, int64_t* count, int64_t* version) {
  const Span<const int64_t> keep = it->head->keep();
  *count = static_cast<int64_t>(keep.size());
  *version = it->head->kept().version();
  return keep.data();
}

edgedec_core_drafter* edgedec_core_drafter_exit_new(const edgedec_core_exit* given) {
  auto made = std::make_unique<edgedec_core_drafter>();
  made->forward = std::make_unique<api::HostForward>(*given->forward);
  const Span<const int32_t> ends = api::span(given->ends, given->ends_count);
  ExitSetting setting;
  setting.layers = {given->exit, given->resume};
  setting.last = given->last;
  setting.ends.assign(ends.begin(), ends.end());
  setting.layer_bytes = given->layer_bytes;
  setting.head_bytes = given->head_bytes;
  setting.table_bytes = given->table_bytes;
  setting.vocabulary = given->vocabulary;
  setting.doubts = doubts_of(given->doubts);
  const auto trimmed = given->trimmed ? given->trimmed->head : nullptr;
  made->drafter = std::make_unique<ExitDrafter>(*made->forward, std::move(setting), trimmed);
  return made.release();
}

edgedec_core_drafter* edgedec_core_drafter_model_new(const edgedec_core_model* given) {
  auto made = std::make_unique<edgedec_core_drafter>();
  made->forward = std::make_unique<api::HostForward>(*given->forward);
  const ModelBytes bytes = {given->weight_bytes, given->slot_bytes, given->table_bytes};
  made->drafter = std::make_unique<ModelDrafter>("", *made->forward, given->bridge->bridge,
                                                 given->trimmed ? given->trimmed->head : nullptr, bytes,
                                                 doubts_of(given->doubts));
  return made.release();
}

void edgedec_core_drafter_free(edgedec_core_drafter* it) { delete it; }

int edgedec_core_drafter_sampled(edgedec_core_drafter* it, const edgedec_core_params* params) {
  DrawParams drawing;
  if (const int failed = api::failed(api::read(*params, &drawing))) return failed;
  it->drafter->sampled(drawing);
  return 0;
}

int edgedec_core_drafter_begin(edgedec_core_drafter* it, const int32_t* tokens, int64_t count, int64_t kept) {
  return api::failed(it->drafter->begin(api::span(tokens, count), api::size(kept)));
}

int edgedec_core_drafter_commit(edgedec_core_drafter* it, const int32_t* tokens, int64_t count) {
  return api::failed(it->drafter->commit(api::span(tokens, count)));
}

int edgedec_core_drafter_read(edgedec_core_drafter* it, int64_t start, const float* hidden, int64_t count) {
  return api::failed(it->drafter->read(start, api::span(hidden, count)));
}

int edgedec_core_drafter_propose(edgedec_core_drafter* it, int64_t limit, double floor, int32_t* tokens, int32_t* parents,
                                 double* probs) {
  DraftTree& tree = it->tree;
  tree.clear();
  if (const int failed = api::failed(it->drafter->propose(static_cast<int>(limit), floor, 0, &tree))) return failed;
  tree.shorten(api::size(limit));
  std::copy(tree.tokens.begin(), tree.tokens.end(), tokens);
  std::copy(tree.parents.begin(), tree.parents.end(), parents);
  std::copy(tree.probs.begin(), tree.probs.end(), probs);
  return static_cast<int>(tree.size());
}

int edgedec_core_drafter_ahead(edgedec_core_drafter* it, const int32_t* tokens, int64_t count, int64_t limit, int32_t* found) {
  std::vector<int32_t> ahead;
  const Status status = it->drafter->ahead(api::span(tokens, count), static_cast<int>(limit), &ahead);
  if (const int failed = api::failed(status)) return failed;
  std::copy(ahead.begin(), ahead.end(), found);
  return static_cast<int>(ahead.size());
}

void edgedec_core_drafter_work(const edgedec_core_drafter* it, int64_t* work) {
  const DraftWork done = it->drafter->work();
  work[0] = done.bytes_read;
  work[1] = done.passes;
  work[2] = done.table_bytes;
  work[3] = it->drafter->peeked();
}

int64_t edgedec_core_drafter_bytes(const edgedec_core_drafter* it) { return static_cast<int64_t>(it->drafter->nbytes()); }
