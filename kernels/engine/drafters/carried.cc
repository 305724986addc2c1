#include "engine/drafters/carried.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/draft/assistant_drafter.h"
#include "core/draft/head_drafter.h"
#include "core/draft/mtp_drafter.h"
#include "engine/drafters/trim.h"
#include "engine/model/assistant_model.h"
#include "engine/model/layer_model.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kContextOfHead = 1024;  // most tokens in the cache of a trained head

int last_layer(const Manifest& manifest) { return static_cast<int>(manifest.spec.n_layers) - 1; }

std::vector<int> taps_of(const HeadFacts& facts, const ModelSpec& spec) {
  if (!facts.taps.empty()) return facts.taps;
  const auto usual = usual_taps(spec.n_layers);
  return {usual.begin(), usual.end()};
}

// kBadFile unless the model hands out the outputs of all these layers.
Status check_taps(const std::vector<int>& taps, const OnnxModel& model, const std::string& which) {
  const std::vector<int>& had = model.exits().taps;
  for (int tap : taps)
    if (!std::binary_search(had.begin(), had.end(), tap))
      return {Code::kBadFile, "its bundle does not hand out " + which, "pull or export the model again"};
  return {};
}

// kBadFile unless a model hands out its last layer's output, and has these sizes.
Status check_last_layer(const CarryingTarget& target, int64_t hidden, int64_t ids) {
  const ModelSpec& spec = target.manifest.spec;
  EDGEDEC_TRY(check_taps({last_layer(target.manifest)}, *target.model, "hidden states"));
  if (hidden == spec.hidden_size && ids == spec.vocab_size) return {};
  return {Code::kBadFile, "it is for a model of " + decimal(hidden) + " numbers a token and " + decimal(ids) + " tokens"};
}

class CarriedHead final : public CarriedDrafter {
 public:
  Status open(const Runtime& runtime, const std::string& folder, const CarryingTarget& target, const DrafterManifest& found) {
    HeadFacts facts;
    EDGEDEC_TRY(HeadFacts::of(found, &facts));
    const ModelSpec& spec = target.manifest.spec;
    taps_ = taps_of(facts, spec);
    std::string which;
    for (int tap : facts.taps) which += (which.empty() ? "the outputs of layers " : ", ") + decimal(int64_t{tap});
    EDGEDEC_TRY(check_taps(taps_, *target.model, which.empty() ? "hidden states" : which));
    const int64_t width = static_cast<int64_t>(taps_.size()) * spec.hidden_size;
    if (facts.width() != width)
      return {Code::kBadFile, "it reads " + decimal(facts.width()) + " numbers a token, and the model has " + decimal(width)};
    LayerGraph graph = graph_of(facts, file_size(path_in(folder, kWeightsFile)), spec.vocab_size);
    return LayerModel::open(runtime, folder, target.bundle, std::move(graph), target.model->threads(), &layer_);
  }

  DrafterMemory memory() const override {
    const auto rest = [](const void* self, const MemoryChoice& choice, int64_t) {
      const LayerModel& layer = *static_cast<const CarriedHead*>(self)->layer_;
      return layer_bytes(layer.graph(), layer.threads(), std::min(choice.context, kContextOfHead));
    };
    return {"head", layer_->graph().weights, rest, this};
  }

  Status make(const Forward& target, Ledger* ledger, std::unique_ptr<Drafter>* made) override {
    std::unique_ptr<LayerForward> forward;
    EDGEDEC_TRY(layer_->forward(std::min(target.capacity(), kContextOfHead), ledger, &forward));
    *made = std::make_unique<HeadDrafter>(std::move(forward), taps_);
    return {};
  }

 private:
  std::unique_ptr<LayerModel> layer_;
  std::vector<int> taps_;
};

class CarriedMtp final : public CarriedDrafter {
 public:
  Status open(const Runtime& runtime, const std::string& folder, const CarryingTarget& target, const DrafterManifest& found,
              Notice* notice) {
    MtpFacts facts;
    EDGEDEC_TRY(MtpFacts::of(found, &facts));
    EDGEDEC_TRY(check_last_layer(target, facts.hidden, facts.ids));
    LayerGraph graph = graph_of(facts, file_size(path_in(folder, kWeightsFile)));
    EDGEDEC_TRY(LayerModel::open(runtime, folder, target.bundle, std::move(graph), target.model->threads(), &layer_));
    tap_ = last_layer(target.manifest);
    const LayerGraph& own = layer_->graph();
    const double whole = std::max(read_bytes(target.manifest.spec, target.model->weight_bytes()), 1.0);
    const LayerCost cost = {read_bytes(facts.spec(1), own.weights) / whole, static_cast<double>(own.sizes.head) / whole};
    const Status read = read_trimmed_layer(target.bundle, target.manifest, cost, &trimmed_);
    if (!read.ok() && notice) notice->tell(target.manifest.name + " drafts with its full head: " + read.message());
    return {};
  }

  DrafterMemory memory() const override {
    const auto rest = [](const void* self, const MemoryChoice& choice, int64_t) {
      const CarriedMtp& it = *static_cast<const CarriedMtp*>(self);
      const auto trimmed = static_cast<int64_t>(it.trimmed_ ? it.trimmed_->nbytes() : 0);
      return layer_bytes(it.layer_->graph(), it.layer_->threads(), choice.context + kMoreSlots) + trimmed;
    };
    return {"mtp", layer_->graph().weights, rest, this};
  }

  Status make(const Forward& target, Ledger* ledger, std::unique_ptr<Drafter>* made) override {
    std::unique_ptr<LayerForward> forward;
    EDGEDEC_TRY(layer_->forward(target.capacity() + kMoreSlots, ledger, &forward));
    *made = std::make_unique<MtpDrafter>(std::move(forward), tap_, trimmed_ ? trimmed_->again() : nullptr);
    return {};
  }

 private:
  static constexpr int64_t kMoreSlots = static_cast<int64_t>(HeadDrafter::kMostFed);  // beyond the target's, for drafted tokens

  std::unique_ptr<LayerModel> layer_;
  std::shared_ptr<TrimmedHead> trimmed_;
  int tap_ = 0;
};

class CarriedAssistant final : public CarriedDrafter {
 public:
  Status open(const Runtime& runtime, const std::string& folder, const CarryingTarget& target, const DrafterManifest& found) {
    AssistantFacts facts;
    EDGEDEC_TRY(AssistantFacts::of(found, &facts));
    EDGEDEC_TRY(check_last_layer(target, facts.target_hidden, facts.ids));
    tap_ = last_layer(target.manifest);
    return AssistantModel::open(runtime, folder, target.bundle, facts, target.model->threads(), &model_);
  }

  DrafterMemory memory() const override {
    const auto rest = [](const void* self, const MemoryChoice& choice, int64_t) {
      return static_cast<const CarriedAssistant*>(self)->model_->step_bytes(choice.context);
    };
    return {"assistant", model_->weights(), rest, this};
  }

  Status make(const Forward& target, Ledger* ledger, std::unique_ptr<Drafter>* made) override {
    std::unique_ptr<AssistantSteps> steps;
    EDGEDEC_TRY(model_->steps(target, ledger, &steps));
    *made = std::make_unique<AssistantDrafter>(std::move(steps), tap_);
    return {};
  }

 private:
  std::unique_ptr<AssistantModel> model_;
  int tap_ = 0;
};

// Opens one, and hands it on.
template <class Kind, class... More>
Status opened(const Runtime& runtime, const std::string& folder, const CarryingTarget& target, const DrafterManifest& found,
              std::unique_ptr<CarriedDrafter>* drafter, More... more) {
  auto made = std::make_unique<Kind>();
  EDGEDEC_TRY(made->open(runtime, folder, target, found, more...));
  *drafter = std::move(made);
  return {};
}

}  // namespace

std::vector<int> carried_taps(const CarriedKind& kind, const CarryingTarget& target) {
  if (kind.kind != DrafterKind::kHead) return {last_layer(target.manifest)};
  DrafterManifest found;
  HeadFacts facts;
  const Status read = DrafterManifest::load(carried(target.bundle, "head"), false, &found);
  return read.ok() && HeadFacts::of(found, &facts).ok() ? facts.taps : std::vector<int>();
}

Status CarriedDrafter::open(const CarriedKind& kind, const Runtime& runtime, const CarryingTarget& target, Notice* notice,
                            std::unique_ptr<CarriedDrafter>* drafter) {
  const std::string folder = carried(target.bundle, kind.name);
  DrafterManifest found;
  EDGEDEC_TRY(DrafterManifest::load(folder, true, &found));
  EDGEDEC_TRY(found.check_for(kind.name, target.manifest.file(kWeightsFile)->sha256, target.manifest.spec.vocab_size));
  if (kind.kind == DrafterKind::kHead) return opened<CarriedHead>(runtime, folder, target, found, drafter);
  if (kind.kind == DrafterKind::kMtp) return opened<CarriedMtp>(runtime, folder, target, found, drafter, notice);
  return opened<CarriedAssistant>(runtime, folder, target, found, drafter);
}

}  // namespace edgedec::engine
