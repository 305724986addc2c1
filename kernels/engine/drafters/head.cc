#include "engine/drafters/head.h"

#include <algorithm>

#include "core/base/format.h"
#include "engine/draft/head_drafter.h"
#include "engine/drafters/trim.h"

namespace edgedec::engine {
namespace {

int64_t head_rest(const void* self, const MemoryChoice& choice, int64_t) {
  const HeadModel& head = *static_cast<const HeadModel*>(self);
  const int64_t context = std::min(choice.context, kHeadContext), longest = std::min(kHeadLongestPass, context);
  const ModelSpec spec = head.facts().spec(kHeadContext);
  const int64_t buffers = longest * (4 * (6 * spec.hidden_size + 4 * spec.head_k + 4) + 5 * 8);
  const int64_t waiting = kHeadWaiting * kHeadTaps * spec.hidden_size * 4;
  return cache_bytes(spec, context, KvType::kFp16, longest) + scratch_bytes(spec, head.threads(), longest, context, 0) +
         buffers + waiting;
}

}  // namespace

Status open_carried_head(const Runtime& runtime, const std::string& folder, const Manifest& manifest, const OnnxModel& target,
                         std::unique_ptr<HeadModel>* head) {
  const std::string place = carried(folder, "head");
  DrafterManifest found;
  HeadFacts facts;
  EDGEDEC_TRY(DrafterManifest::load(place, true, &found));
  EDGEDEC_TRY(found.check_for("head", manifest.file(kWeightsFile)->sha256, manifest.spec.vocab_size));
  EDGEDEC_TRY(HeadFacts::of(found, &facts));
  const int64_t width = target.exits().hidden();
  if (!width) return {Code::kBadFile, "its bundle hands out no hidden states", "pull or export the model again"};
  if (width != kHeadTaps * facts.hidden)
    return {Code::kBadFile,
            "it reads " + decimal(kHeadTaps * facts.hidden) + " numbers a token, and the model has " + decimal(width)};
  return HeadModel::open(runtime, place, folder, facts, manifest.spec.vocab_size, target.threads(), head);
}

DrafterMemory head_memory(const HeadModel& head) { return {"head", head.weight_bytes(), head_rest, &head}; }

Status make_head_drafter(HeadModel& head, const Forward& target, Ledger* ledger, std::unique_ptr<Drafter>* made) {
  std::unique_ptr<HeadForward> forward;
  const auto taps = usual_taps(target.spec().n_layers);
  EDGEDEC_TRY(head.forward(std::min(target.capacity(), kHeadContext), ledger, &forward));
  *made = std::make_unique<HeadDrafter>(std::move(forward), std::vector<int>(taps.begin(), taps.end()), head.facts().hidden * kHeadTaps);
  return {};
}

}  // namespace edgedec::engine
