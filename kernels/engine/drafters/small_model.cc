#include "engine/drafters/small_model.h"

#include <algorithm>

#include "engine/base/files.h"
#include "core/base/format.h"
#include "core/draft/model_drafter.h"

namespace edgedec::engine {
Status SmallModel::open(const Runtime& runtime, const DrafterSpec& spec, const DraftTarget& target, std::string* note,
                        std::unique_ptr<SmallModel>* model) {
  std::unique_ptr<SmallModel> made(new SmallModel);
  made->name_ = spec.name;
  Manifest& manifest = made->manifest_;
  EDGEDEC_TRY(Manifest::load(spec.bundle, false, &manifest));
  if (manifest.kind != "edgedec")
    return {Code::kUnsupported, "the native engine does not run bundles of the kind " + quoted(manifest.kind),
            "export the model for EdgeDec's kernels"};
  EDGEDEC_TRY(made->vocabulary_.open({target.manifest, target.tokenizer}, manifest, spec));
  const bool trimmed = manifest.file(kDraftingFile) && !carried(spec.bundle, "trim").empty();
  EDGEDEC_TRY(OnnxModel::open(runtime, spec.bundle, manifest.spec, manifest.file(kWeightsFile)->bytes,
                              {target.model.threads(), true, trimmed}, &made->model_));
  const OnnxModel& own = *made->model_;
  if (own.experts())
    return {Code::kUnsupported, "its experts have no room in memory, and those of a model that drafts are read from there", ""};
  if (trimmed) {
    const double whole = std::max(read_bytes(target.manifest.spec, target.model.weight_bytes()), 1.0);
    const double step = read_bytes(manifest.spec, own.weight_bytes()) / whole;
    if (const Status read = read_trim(spec.bundle, manifest, step, &made->trimmed_); !read.ok())
      *note = manifest.name + " drafts with its full head: " + read.message();
  }
  made->memory_ = own.memory();
  made->memory_.weights += static_cast<int64_t>(made->vocabulary_.mapped_bytes());
  *model = std::move(made);
  return {};
}

Status SmallModel::make(Budget& budget, std::unique_ptr<Drafter>* made) {
  if (!forward_) {
    const MemoryChoice& choice = budget.plan().choice;
    const CacheConfig cache = {std::min(choice.context, manifest_.spec.context_length), choice.kv, budget.longest_pass()};
    ledger_ = std::make_unique<Ledger>(&budget.ledger(), "drafter");
    EDGEDEC_TRY(model_->forward(cache, ledger_.get(), &forward_));
    kept_ = Lease(&budget.ledger(), kSlack);
    if (trimmed_) EDGEDEC_TRY(kept_.grow(2 * static_cast<int64_t>(trimmed_->nbytes())));
  }
  EDGEDEC_TRY(forward_->rewind(0));
  const ModelBytes bytes = {static_cast<double>(model_->weight_bytes()),
                            static_cast<double>(ledger_->held("kv_cache") / std::max<int64_t>(forward_->capacity(), 1)),
                            static_cast<double>(manifest_.spec.table_bytes)};
  *made = std::make_unique<ModelDrafter>(name_, *forward_, vocabulary_.bridge(), trimmed_ ? trimmed_->again() : nullptr, bytes);
  return {};
}

}  // namespace edgedec::engine
