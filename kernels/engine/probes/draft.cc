// Functions that tests of core/draft call.
#include <memory>

#include "core/api/drafter_handle.h"
#include "engine/base/files.h"
#include "engine/drafters/carried.h"
#include "engine/probes/report.h"

using namespace edgedec::engine;

namespace {

// A model with one of its drafters.
struct OpenCarried {
  Runtime runtime;
  Manifest manifest;
  std::unique_ptr<OnnxModel> model;
  Ledger ledger, own;
  std::unique_ptr<Forward> forward;
  std::unique_ptr<CarriedDrafter> carried;
  std::string bundle;
  HeadRows rows;
};

Status opened(const char* runtime, const char* name, int64_t capacity, OpenCarried* it, std::unique_ptr<Drafter>* drafter) {
  EDGEDEC_TRY(Runtime::load(runtime, &it->runtime));
  EDGEDEC_TRY(Manifest::load(it->bundle, false, &it->manifest));
  for (const CarriedKind& kind : kCarriedKinds) {
    if (std::string(kind.name) != name) continue;
    const OpenOptions options{1, false, true, carried_taps(kind, {it->bundle, it->manifest})};
    const int64_t weights = it->manifest.file(kWeightsFile)->bytes;
    EDGEDEC_TRY(OnnxModel::open(it->runtime, it->bundle, it->manifest.spec, weights, options, &it->model));
    EDGEDEC_TRY(it->model->forward({capacity, KvType::kFp16, 64}, &it->ledger, &it->forward));
    EDGEDEC_TRY(CarriedDrafter::open(kind, it->runtime, {it->bundle, it->manifest, it->model.get()}, nullptr, &it->carried));
    return it->carried->make(*it->forward, &it->own, drafter);
  }
  return {Code::kUsage, "there is no such kind"};
}

}  // namespace

// A model with the drafter of a kind that its bundle carries; null, after a word of the reason, where it has none.
EDGEDEC_EXPORT OpenCarried* edgedec_probe_carried_open(const char* runtime, const char* bundle, const char* kind, int64_t capacity,
                                                       edgedec_core_drafter** drafter, char* why, size_t room) {
  auto made = std::make_unique<OpenCarried>();
  auto handle = std::make_unique<edgedec_core_drafter>();
  made->bundle = bundle;
  if (const Status done = opened(runtime, kind, capacity, made.get(), &handle->drafter); !done.ok()) {
    why[done.message().copy(why, room - 1)] = 0;
    return nullptr;
  }
  *drafter = handle.release();
  return made.release();
}

EDGEDEC_EXPORT void edgedec_probe_carried_close(OpenCarried* it) { delete it; }

// Feeds tokens to the model, whose cache is as long as `length` says, and tells the drafter of them.
EDGEDEC_EXPORT int edgedec_probe_carried_feed(OpenCarried* it, edgedec_core_drafter* drafter, int64_t length, const int32_t* tokens,
                                              size_t count) {
  Rows rows = Rows::last();
  rows.taps = drafter->drafter->taps();
  Status status = it->forward->rewind(length);
  if (status.ok()) status = it->forward->extend({tokens, count}, {}, rows, &it->rows);
  if (status.ok()) status = drafter->drafter->read(length, it->rows.hidden);
  return static_cast<int>(status.code());
}

