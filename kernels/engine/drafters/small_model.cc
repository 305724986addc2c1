#include "engine/drafters/small_model.h"

#include <algorithm>

#include "engine/base/files.h"
#include "core/base/format.h"
#include "engine/drafters/device_folder.h"
#include "core/draft/model_drafter.h"

namespace edgedec::engine {
namespace {

// Whether both bundles have the very same tokenizer file, which settles it.
bool same_file(const Manifest& target, const Manifest& draft) {
  for (const char* name : {kTokenizerFile, kTokenizerTable}) {
    const FileEntry *theirs = target.file(name), *mine = draft.file(name);
    if (theirs && mine) return theirs->bytes == mine->bytes && theirs->sha256 == mine->sha256;
  }
  return false;
}

// Whether two vocabularies are the same, id by id.
bool same_vocabulary(const Tokenizer& target, const Tokenizer& draft, int64_t ids) {
  if (target.size() != draft.size() || target.info().spm != draft.info().spm) return false;
  for (int64_t id = 0; id < ids; ++id)
    if (target.spelling(id) != draft.spelling(id)) return false;
  return true;
}

}  // namespace

Status SmallModel::open(const Runtime& runtime, const DrafterSpec& spec, const DraftTarget& target, std::string* note,
                        std::unique_ptr<SmallModel>* model) {
  std::unique_ptr<SmallModel> made(new SmallModel);
  made->name_ = spec.name;
  Manifest& manifest = made->manifest_;
  EDGEDEC_TRY(Manifest::load(spec.bundle, false, &manifest));
  if (manifest.kind != "edgedec")
    return {Code::kUnsupported, "the native engine does not run bundles of the kind " + quoted(manifest.kind),
            "export the model for EdgeDec's kernels"};
  EDGEDEC_TRY(made->pair(target, spec));
  const bool trimmed = manifest.file(kDraftingFile) && !carried(spec.bundle, "trim").empty();
  EDGEDEC_TRY(OnnxModel::open(runtime, spec.bundle, manifest.spec, manifest.file(kWeightsFile)->bytes,
                              {target.model.threads(), true, trimmed}, &made->model_));
  const OnnxModel& own = *made->model_;
  if (trimmed) {
    const double whole = std::max(read_bytes(target.manifest.spec, target.model.weight_bytes()), 1.0);
    const double step = read_bytes(manifest.spec, own.weight_bytes()) / whole;
    if (const Status read = read_trim(spec.bundle, manifest, step, &made->trimmed_); !read.ok())
      *note = manifest.name + " drafts with its full head: " + read.message();
  }
  made->shared_ids_ = std::min(target.manifest.spec.vocab_size, manifest.spec.vocab_size);
  const size_t table = made->tokenizer_ ? made->tokenizer_->mapped_bytes() : 0;
  made->memory_ = own.memory();
  made->memory_.weights += static_cast<int64_t>(table);
  *model = std::move(made);
  return {};
}

// Finds how the two vocabularies go together. kUnsupported where nothing says so.
Status SmallModel::pair(const DraftTarget& target, const DrafterSpec& spec) {
  target_ = &target.tokenizer;
  if (same_file(target.manifest, manifest_)) return {};
  EDGEDEC_TRY(Tokenizer::open(path_in(spec.bundle, kTokenizerTable), manifest_.tokenizer, &tokenizer_));
  const int64_t theirs = target.manifest.spec.vocab_size, mine = manifest_.spec.vocab_size;
  if (!spec.maps.empty()) {
    EDGEDEC_TRY(check_maps(spec.maps, spec.map_files));
    return maps_.read(spec.maps, theirs, mine);
  }
  if (!same_vocabulary(target.tokenizer, *tokenizer_, std::max(theirs, mine)))
    return {Code::kUnsupported,
            name_ + " cannot draft for " + target.manifest.name + ": it has another vocabulary, and no maps to it",
            "export both into one folder for a device"};
  tokenizer_.reset();
  return {};
}

std::unique_ptr<Bridge> SmallModel::bridge() {
  if (tokenizer_) {
    const TokenizerInfo& info = tokenizer_->info();
    std::vector<int32_t> opening;
    if (info.add_bos && info.bos_id >= 0) opening.push_back(static_cast<int32_t>(info.bos_id));
    return std::make_unique<TextBridge>(*target_, *tokenizer_, maps_, std::move(opening));
  }
  return std::make_unique<SameVocabulary>(shared_ids_);
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
  *made = std::make_unique<ModelDrafter>(name_, *forward_, bridge(), trimmed_ ? trimmed_->again() : nullptr, bytes);
  return {};
}

}  // namespace edgedec::engine
