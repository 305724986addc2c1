// Functions that tests of core/draft call.
#include <memory>

#include "engine/base/files.h"
#include "engine/capi/convert.h"
#include "engine/draft/head_drafter.h"
#include "engine/probes/report.h"

using namespace edgedec::engine;

namespace {

struct OpenHead {
  Runtime runtime;
  Ledger ledger;
  std::unique_ptr<HeadModel> model;
  std::unique_ptr<HeadDrafter> drafter;
};

Status opened(const char* runtime, const char* folder, const char* target, int64_t capacity, OpenHead* it) {
  Manifest manifest;
  DrafterManifest found;
  HeadFacts facts;
  EDGEDEC_TRY(Runtime::load(runtime, &it->runtime));
  EDGEDEC_TRY(Manifest::load(target, false, &manifest));
  EDGEDEC_TRY(DrafterManifest::load(folder, true, &found));
  EDGEDEC_TRY(HeadFacts::of(found, &facts));
  EDGEDEC_TRY(HeadModel::open(it->runtime, folder, target, facts, manifest.spec.vocab_size, 1, &it->model));
  std::unique_ptr<HeadForward> forward;
  EDGEDEC_TRY(it->model->forward(capacity, &it->ledger, &forward));
  it->drafter = std::make_unique<HeadDrafter>(std::move(forward), std::vector<int>(), kHeadTaps * facts.hidden);
  return {};
}

}  // namespace

// The drafter of a trained head; null where there is none.
EDGEDEC_EXPORT OpenHead* edgedec_probe_head_open(const char* runtime, const char* folder, const char* target, int64_t capacity) {
  auto made = std::make_unique<OpenHead>();
  return opened(runtime, folder, target, capacity, made.get()).ok() ? made.release() : nullptr;
}

EDGEDEC_EXPORT void edgedec_probe_head_close(OpenHead* it) { delete it; }

// `kept` below 0: commits tokens, else begins with them, drawn as `sampling` says.
EDGEDEC_EXPORT int edgedec_probe_head_tokens(OpenHead* it, const int32_t* tokens, size_t count, int64_t kept,
                                             const edgedec_sampling* sampling) {
  const Span<const int32_t> all(tokens, count);
  if (kept < 0) return static_cast<int>(it->drafter->commit(all).code());
  DrawParams params;
  Status status = params_of(*sampling, &params);
  it->drafter->sampled(params);
  if (status.ok()) status = it->drafter->begin(all, static_cast<size_t>(kept));
  return static_cast<int>(status.code());
}

EDGEDEC_EXPORT int edgedec_probe_head_read(OpenHead* it, int64_t start, const float* hidden, size_t count) {
  return static_cast<int>(it->drafter->read(start, {hidden, count}).code());
}

EDGEDEC_EXPORT char* edgedec_probe_head_propose(OpenHead* it, int limit, double floor, size_t* size) {
  DraftTree tree;
  if (const Status status = it->drafter->propose(limit, floor, 0, &tree); !status.ok()) return reported(status, size);
  JsonWriter out;
  out.begin_list();
  for (size_t at = 0; at < tree.size(); ++at)
    out.begin_list().whole(tree.tokens[at]).whole(tree.parents[at]).real(tree.probs[at]).end_list();
  return copied(out.end_list().str(), size);
}
