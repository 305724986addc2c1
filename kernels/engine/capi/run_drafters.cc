// The drafters of a run: opened, planned for, and built.
#include <algorithm>

#include "engine/base/files.h"
#include "core/base/format.h"
#include "engine/bundle/drafter_manifest.h"
#include "engine/capi/run.h"
#include "engine/decode/table_drafters.h"
#include "engine/drafters/own_layers.h"
#include "core/memory/units.h"

namespace edgedec::engine {
namespace {

// Whether a drafter that fails so is left out; after other errors nothing runs.
bool is_left_out(Code code) {
  return code == Code::kBackend || code == Code::kBadFile || code == Code::kUnsupported || code == Code::kNotFound;
}

}  // namespace

bool Run::has(DrafterKind kind) const {
  return std::any_of(drafters_.begin(), drafters_.end(), [kind](const DrafterSpec& one) { return one.kind == kind; });
}

// Bytes of weights that drafters have beside the target's. Small models that nobody named find room by themselves.
int64_t Run::beside() const {
  int64_t total = 0;
  for (const DrafterSpec& one : drafters_) {
    DrafterManifest found;
    if (one.kind == DrafterKind::kModel && one.named) total += std::max<int64_t>(file_size(path_in(one.bundle, kWeightsFile)), 0);
    if (!carried_kind(one.kind) || !DrafterManifest::load(carried(config_.folder, one.name.c_str()), false, &found).ok()) continue;
    for (const FileEntry& file : found.files) total += file.bytes;
  }
  return total;
}

// Opens what drafters need beside the target. One that cannot be used costs a line.
Status Run::open_drafters() {
  EDGEDEC_TRY(check_exits(manifest_.name, model_->exits().exits, drafters_));
  if (has(DrafterKind::kExit))
    if (const Status read = read_trim(config_.folder, manifest_, 1.0, &trimmed_); !read.ok())
      tell(manifest_.name + " drafts with its full head: " + read.message());
  EDGEDEC_TRY(open_carried());
  for (const DrafterSpec& spec : drafters_)
    if (spec.kind == DrafterKind::kModel) return open_small(DrafterSpec(spec));
  return {};
}

Status Run::open_small(const DrafterSpec& spec) {
  std::string note;
  const Status opened = SmallModel::open(runtime_, spec, {manifest_, *tokenizer_, *model_}, &note, &small_);
  if (!note.empty()) tell(note);
  if (opened.ok() || !is_left_out(opened.code())) return opened;
  tell(manifest_.name + " runs without " + spec.name + ", which drafts for it: " + opened.message());
  close(DrafterKind::kModel);
  return {};
}

Status Run::open_carried() {
  const std::vector<DrafterSpec> chosen = drafters_;
  for (const DrafterSpec& one : chosen) {
    const CarriedKind* kind = carried_kind(one.kind);
    if (!kind) continue;
    std::unique_ptr<CarriedDrafter> made;
    const CarryingTarget target = {config_.folder, manifest_, model_.get()};
    const Status opened = CarriedDrafter::open(*kind, runtime_, target, notice_, &made);
    if (opened.ok()) {
      carried_.push_back({one.kind, std::move(made), nullptr});
      continue;
    }
    if (!is_left_out(opened.code())) return opened;
    tell(manifest_.name + " runs without its " + kind->title + ": " + opened.message());
    close(one.kind);
  }
  return {};
}

// Whether nobody named a drafter with weights of its own.
bool Run::unnamed() const {
  return std::none_of(drafters_.begin(), drafters_.end(), [](const DrafterSpec& one) {
    return (one.kind == DrafterKind::kModel || carried_kind(one.kind)) && one.named;
  });
}

// Whether a small model that nobody named fits into memory that nothing else needs; a line says if not.
bool Run::spares(const MemoryFacts& facts, const MemoryWish& wish) {
  const bool named = std::any_of(drafters_.begin(), drafters_.end(),
                                 [](const DrafterSpec& one) { return one.kind == DrafterKind::kModel && one.named; });
  if (named || !wish.memory) return true;
  const int64_t needed = sum_of(footprint(facts, wish.choice(true)));
  if (needed <= wish.memory) return true;
  for (const DrafterSpec& one : drafters_)
    if (one.kind == DrafterKind::kModel)
      tell("memory budget " + size_text(wish.memory) + ", drafter: no " + one.name + ", which would need " + size_up(needed) +
           " in all");
  return false;
}

void Run::close(DrafterKind kind) {
  if (kind == DrafterKind::kModel) small_.reset();
  carried_.erase(std::remove_if(carried_.begin(), carried_.end(), [kind](const Carried& one) { return one.kind == kind; }),
                 carried_.end());
  drafters_.erase(std::remove_if(drafters_.begin(), drafters_.end(),
                                 [kind](const DrafterSpec& one) { return one.kind == kind; }),
                  drafters_.end());
}

Status Run::make_drafters(Drafters* drafters) {
  EDGEDEC_TRY(make_tables(drafters));
  for (const DrafterSpec& one : drafters_) {
    if (one.kind == DrafterKind::kExit) EDGEDEC_TRY(make_exits(one, drafters));
    std::unique_ptr<Drafter> made;
    for (Carried& carried : carried_) {
      if (carried.kind != one.kind) continue;
      if (!carried.ledger) carried.ledger = std::make_unique<Ledger>(&budget_->ledger(), carried.drafter->memory().part);
      EDGEDEC_TRY(carried.drafter->make(*forward_, carried.ledger.get(), &made));
    }
    if (one.kind == DrafterKind::kModel) EDGEDEC_TRY(small_->make(*budget_, &made));
    if (made) drafters->push_back(std::move(made));
  }
  return {};
}

Status Run::make_exits(const DrafterSpec& spec, Drafters* drafters) {
  const auto trimmed = trimmed_ ? trimmed_->again() : nullptr;
  if (trimmed) {
    if (!kept_.bytes()) kept_ = Lease(&budget_->ledger(), kSlack);
    EDGEDEC_TRY(kept_.grow(kept_.bytes() + static_cast<int64_t>(trimmed->nbytes())));
  }
  add_exits(spec, {manifest_, model_->weight_bytes(), budget_->ledger().held("kv_cache")}, *forward_, trimmed, drafters);
  return {};
}

Status Run::make_tables(Drafters* drafters) {
  const int64_t tables = budget_->plan().choice.tables;
  int64_t most = 0, held = 0;
  for (const DrafterSpec& one : drafters_) most += useful_bytes(one.name);
  if (!most) return {};
  const double share = std::min(static_cast<double>(tables) / static_cast<double>(most), 1.0);
  for (const DrafterSpec& one : drafters_) {
    if (one.kind != DrafterKind::kTable) continue;
    const auto bytes = static_cast<int64_t>(share * static_cast<double>(useful_bytes(one.name)));
    std::unique_ptr<Drafter> made;
    EDGEDEC_TRY(make_table_drafter(one.name, bytes, &made));
    drafters->push_back(std::move(made));
    held += bytes;
  }
  tables_ = Lease(&budget_->ledger(), "tables");
  EDGEDEC_TRY(tables_.grow(held));
  restore_tables(drafters);
  return {};
}

// Gives drafters the tables that were prepared for the model, if there are some.
void Run::restore_tables(Drafters* drafters) {
  const std::string& named = config_.tables_folder;
  const std::string folder = named.empty() ? path_in(config_.folder, "drafters/tables") : named;
  if (named.empty() && file_size(path_in(folder, "drafter.json")) < 0) return;
  const Status done =
      restore_prepared(folder, manifest_.file(kWeightsFile)->sha256, manifest_.spec.vocab_size, drafters);
  if (!done.ok()) tell("note: " + manifest_.name + " runs without its prepared tables: " + done.message());
}

}  // namespace edgedec::engine
