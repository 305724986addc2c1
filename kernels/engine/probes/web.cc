// Functions that tests of web/ call: a browser's passes on the CPU, as other forwards are tested.
#include <memory>
#include <string>

#include "common/capi.h"
#include "core/api/drafter_handle.h"
#include "engine/bundle/manifest.h"
#include "engine/probes/open_forward.h"
#include "engine/web/web_drafters.h"

using namespace edgedec::engine;

namespace {

// A model on a browser's CPU, with its drafters.
struct OpenWeb : OpenForward {
  std::string bundle;
  Manifest manifest;
  std::unique_ptr<Tokenizer> tokenizer;
  CpuCaches caches;
  std::unique_ptr<CpuModel> model;
  WebDrafters drafters;

  AwaitedForward& awaited() { return static_cast<AwaitedForward&>(*forward); }
  CpuTarget target() { return {bundle, {manifest, *tokenizer}, *model, awaited()}; }
};

Status opened(int64_t capacity, KvType kv, int64_t max_pass, OpenWeb* it) {
  EDGEDEC_TRY(Manifest::load(it->bundle, false, &it->manifest));
  EDGEDEC_TRY(Tokenizer::open(path_in(it->bundle, kTokenizerTable), it->manifest.tokenizer, &it->tokenizer));
  const CpuShape shape = CpuShape::of(it->manifest.spec);
  EDGEDEC_TRY(it->caches.allocate(shape, capacity, kv));
  EDGEDEC_TRY(CpuModel::open(CpuFiles::of_model(it->bundle), shape, static_cast<size_t>(max_pass), &it->caches, &it->model));
  auto forward = std::make_unique<AwaitedForward>(it->manifest.spec, capacity, max_pass);
  forward->use(*it->model);
  it->forward = std::move(forward);
  return {};
}

Status drafting(const char* name, OpenWeb* it, std::unique_ptr<Drafter>* drafter) {
  EDGEDEC_TRY(it->drafters.resolve(name, it->bundle, it->manifest));
  const CpuTarget target = it->target();
  EDGEDEC_TRY(it->drafters.open(target));
  Drafters made;
  EDGEDEC_TRY(it->drafters.make(it->bundle, it->manifest, &target, &made));
  if (made.size() != 1) return {Code::kNotFound, it->drafters.notes().empty() ? "no drafter" : it->drafters.notes()[0]};
  *drafter = std::move(made[0]);
  return {};
}

}  // namespace

// A forward for the probes of model/; closed as those are.
EDGEDEC_EXPORT int edgedec_probe_web_forward_open(const char* bundle, int64_t capacity, int int8, int64_t max_pass,
                                                  OpenForward** out) {
  auto made = std::make_unique<OpenWeb>();
  made->bundle = bundle;
  Status status = opened(capacity, int8 ? KvType::kInt8 : KvType::kFp16, max_pass, made.get());
  *out = status.ok() ? made.release() : nullptr;
  return noted(std::move(status));
}

// The drafter of this name of such a forward, which it outlives.
EDGEDEC_EXPORT int edgedec_probe_web_drafter(OpenForward* it, const char* name, edgedec_core_drafter** drafter) {
  auto handle = std::make_unique<edgedec_core_drafter>();
  Status status = drafting(name, static_cast<OpenWeb*>(it), &handle->drafter);
  *drafter = status.ok() ? handle.release() : nullptr;
  return noted(std::move(status));
}

// Feeds tokens to the model, whose cache is as long as `length` says, and tells the drafter of them.
EDGEDEC_EXPORT int edgedec_probe_web_feed(OpenForward* it, edgedec_core_drafter* drafter, int64_t length, const int32_t* tokens,
                                          size_t count) {
  Rows rows = Rows::last();
  rows.taps = drafter->drafter->taps();
  Status status = it->forward->rewind(length);
  if (status.ok()) status = it->forward->extend({tokens, count}, {}, rows, &it->rows);
  if (status.ok()) status = drafter->drafter->read(length, it->rows.hidden);
  return noted(std::move(status));
}
