// Functions that tests of core/draft call.
#include <memory>

#include "engine/base/files.h"
#include "engine/capi/convert.h"
#include "engine/draft/head_drafter.h"
#include "engine/draft/text_bridge.h"
#include "engine/probes/report.h"

using namespace edgedec::engine;

namespace {

struct OpenBridge {
  std::unique_ptr<Tokenizer> target, draft;
  VocabularyMaps maps;
  std::unique_ptr<TextBridge> bridge;
};

Status opened(const char* target, const char* draft, const char* maps, OpenBridge* it) {
  Manifest theirs, mine;
  EDGEDEC_TRY(Manifest::load(target, false, &theirs));
  EDGEDEC_TRY(Manifest::load(draft, false, &mine));
  EDGEDEC_TRY(Tokenizer::open(path_in(target, kTokenizerTable), theirs.tokenizer, &it->target));
  EDGEDEC_TRY(Tokenizer::open(path_in(draft, kTokenizerTable), mine.tokenizer, &it->draft));
  EDGEDEC_TRY(it->maps.read(maps, theirs.spec.vocab_size, mine.spec.vocab_size));
  it->bridge = std::make_unique<TextBridge>(*it->target, *it->draft, it->maps);
  return {};
}

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

// A bridge between the vocabularies of two bundles; null where there is none.
EDGEDEC_EXPORT OpenBridge* edgedec_probe_bridge(const char* target, const char* draft, const char* maps) {
  auto made = std::make_unique<OpenBridge>();
  return opened(target, draft, maps, made.get()).ok() ? made.release() : nullptr;
}

EDGEDEC_EXPORT void edgedec_probe_bridge_close(OpenBridge* it) { delete it; }

// Begins a sequence of which `kept` tokens are known, or with `kept` below 0 commits more; the sequence as JSON.
EDGEDEC_EXPORT char* edgedec_probe_bridge_read(OpenBridge* it, const int32_t* tokens, size_t count, int64_t kept, size_t* size) {
  const Span<const int32_t> all(tokens, count);
  Status status = kept < 0 ? it->bridge->commit(all) : it->bridge->begin(all, static_cast<size_t>(kept));
  Span<const int32_t> ids;
  if (status.ok()) status = it->bridge->read(&ids);
  if (!status.ok()) return reported(status, size);
  JsonWriter out;
  out.begin_list();
  for (int32_t id : ids) out.whole(id);
  return copied(out.end_list().str(), size);
}

// The tree of drafted nodes in the target's ids, and the number of tokens that spell the path to the last node.
EDGEDEC_EXPORT char* edgedec_probe_bridge_tree(OpenBridge* it, const int32_t* tokens, const int* parents, const double* reach,
                                               size_t count, size_t* size) {
  TreeBuilder sketch, draft;
  for (size_t at = 0; at < count; ++at) sketch.add(tokens[at], parents[at], reach[at]);
  std::vector<int32_t> path;
  sketch.spelled(static_cast<int>(sketch.size()) - 1, &path);
  int64_t length = 0;
  Status status = it->bridge->in_target_ids(sketch, &draft);
  if (status.ok()) status = it->bridge->length(path, &length);
  if (!status.ok()) return reported(status, size);
  JsonWriter out;
  out.begin_object().key("length").whole(length).key("nodes").begin_list();
  for (size_t at = 0; at < draft.size(); ++at)
    out.begin_list().whole(draft.tokens[at]).whole(draft.parents[at]).real(draft.reach[at]).end_list();
  return copied(out.end_list().end_object().str(), size);
}
