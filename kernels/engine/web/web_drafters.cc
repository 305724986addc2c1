#include "engine/web/web_drafters.h"

#include <algorithm>
#include <utility>

#include "core/base/format.h"
#include "core/draft/assistant_drafter.h"
#include "core/draft/model_drafter.h"
#include "core/draft/mtp_drafter.h"
#include "core/memory/sizes.h"
#include "core/memory/units.h"
#include "engine/base/files.h"
#include "engine/decode/table_drafters.h"
#include "engine/drafters/own_layers.h"
#include "engine/drafters/trim.h"
#include "engine/web/cpu_layers.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kContextOfHead = 1024;  // most tokens in the cache of a trained head
constexpr size_t kMostFacts = 1 << 20;
constexpr const char* kTables = "drafters/tables";

int last_layer(const ModelSpec& spec) { return static_cast<int>(spec.n_layers) - 1; }

// kBadFile unless the model hands out the outputs of these layers, of `width` numbers together.
Status check_taps(const std::vector<int>& taps, int64_t width, const CpuTarget& target) {
  const std::vector<int>& had = target.cpu.taps();
  for (int tap : taps)
    if (!std::binary_search(had.begin(), had.end(), tap))
      return {Code::kBadFile, "its bundle does not hand out hidden states", "pull or export the model again"};
  const int64_t handed = static_cast<int64_t>(taps.size()) * target.model.manifest.spec.hidden_size;
  if (width == handed) return {};
  return {Code::kBadFile, "it reads " + decimal(width) + " numbers a token, and the model has " + decimal(handed)};
}

// Bytes of a model's weights, in whole pages as a CPU maps them.
int64_t in_pages(const FileEntry* weights) { return weights ? (weights->bytes + kPage - 1) / kPage * kPage : 0; }

int64_t kv_of(const PeekedTarget& target) {
  return kv_bytes(target.manifest.spec, target.forward.capacity(), KvType::kFp16, 0);
}

int64_t size_of_weights(const std::string& folder) { return std::max<int64_t>(file_size(path_in(folder, kWeightsFile)), 0); }

}  // namespace

Status WebDrafters::resolve(std::string_view text, const std::string& folder, const Manifest& manifest) {
  opened_ = false;
  peeked_.reset();
  return resolve_drafters(text, folder, manifest, &specs_);
}

Status WebDrafters::open(const PeekedTarget& target) {
  notes_.clear();
  trimmed_.reset();
  EDGEDEC_TRY(check_exits(target.manifest.name, target.forward.exits(), specs_));
  peeked_.emplace(target);
  for (const DrafterSpec& one : specs_)
    if (one.kind == DrafterKind::kExit) open_trim(target.folder, target.manifest);
  return {};
}

Status WebDrafters::open(const CpuTarget& target, int64_t room) {
  opened_ = true;
  notes_.clear();
  ready_.clear();
  small_.reset();
  trimmed_.reset();
  bytes_ = 0;
  const std::string& model = target.model.manifest.name;
  EDGEDEC_TRY(check_exits(model, target.cpu.exits(), specs_));
  const std::vector<DrafterSpec> chosen = std::exchange(specs_, {});
  for (const DrafterSpec& one : chosen) {
    const int64_t before = bytes_;
    const Status opened = open_one(one, target);
    if (opened.ok() && bytes_ <= std::max(room, before)) {
      specs_.push_back(one);
      continue;
    }
    const std::string why = opened.ok() ? "there is no memory for the " + size_up(bytes_ - before) + " that it takes" : opened.message();
    notes_.push_back(model + " runs without its drafter " + one.name + ": " + why);
    close(one.kind);
    bytes_ = before;
  }
  return {};
}

void WebDrafters::close(DrafterKind kind) {
  if (kind == DrafterKind::kModel) small_.reset();
  ready_.erase(std::remove_if(ready_.begin(), ready_.end(), [kind](const auto& one) { return one.first == kind; }), ready_.end());
}

Status WebDrafters::open_one(const DrafterSpec& spec, const CpuTarget& target) {
  if (spec.kind == DrafterKind::kModel) return open_small(spec, target);
  if (spec.kind == DrafterKind::kExit) open_trim(target.folder, target.model.manifest);
  if (const CarriedKind* kind = carried_kind(spec.kind)) {
    ready_.emplace_back(spec.kind, nullptr);
    return make_carried(*kind, target, &ready_.back().second);
  }
  return {};
}

void WebDrafters::open_trim(const std::string& folder, const Manifest& manifest) {
  if (trimmed_) return;
  const Status read = read_trim(folder, manifest, 1.0, &trimmed_);
  if (!read.ok()) notes_.push_back(manifest.name + " drafts with its full head: " + read.message());
}

Status WebDrafters::open_small(const DrafterSpec& spec, const CpuTarget& target) {
  auto made = std::make_unique<Small>();
  std::string text;
  EDGEDEC_TRY(read_file(path_in(spec.bundle, "manifest.json"), kMostFacts, &text));
  EDGEDEC_TRY(Manifest::from_json(text, &made->manifest));
  const ModelSpec& model = made->manifest.spec;
  EDGEDEC_TRY(made->vocabulary.open(target.model, made->manifest, spec));
  const CpuShape shape = CpuShape::of(model);
  const int64_t capacity = std::min(target.forward.capacity(), model.context_length);
  const int64_t longest = std::min(target.forward.max_pass(), capacity);
  made->caches = std::make_unique<CpuCaches>();
  EDGEDEC_TRY(made->caches->allocate(shape, capacity, target.cpu.caches().kv()));
  EDGEDEC_TRY(CpuModel::open(CpuFiles::of_model(spec.bundle), shape, static_cast<size_t>(longest), made->caches.get(), &made->model));
  made->forward = std::make_unique<AwaitedForward>(model, capacity, longest);
  made->forward->use(*made->model);
  const double whole = std::max(read_bytes(target.model.manifest.spec, target.cpu.weight_bytes()), 1.0);
  const double step = read_bytes(model, made->model->weight_bytes()) / whole;
  if (const Status read = read_trim(spec.bundle, made->manifest, step, &made->trimmed); !read.ok())
    notes_.push_back(made->manifest.name + " drafts with its full head: " + read.message());
  bytes_ += made->model->weight_bytes() + made->model->pass_bytes() + made->caches->slot_bytes() * capacity;
  small_ = std::move(made);
  return {};
}

std::unique_ptr<Drafter> WebDrafters::make_small(const DrafterSpec& spec) const {
  const ModelBytes bytes = {static_cast<double>(small_->model->weight_bytes()), static_cast<double>(small_->caches->slot_bytes()),
                            static_cast<double>(small_->manifest.spec.table_bytes)};
  return std::make_unique<ModelDrafter>(spec.name, *small_->forward, small_->vocabulary.bridge(),
                                        small_->trimmed ? small_->trimmed->again() : nullptr, bytes);
}

Status WebDrafters::make(const std::string& folder, const Manifest& manifest, const CpuTarget* target, Drafters* drafters) {
  for (const DrafterSpec& one : specs_) {
    if (one.kind != DrafterKind::kTable) continue;
    std::unique_ptr<Drafter> made;
    EDGEDEC_TRY(make_table_drafter(one.name, useful_bytes(one.name), &made));
    drafters->push_back(std::move(made));
  }
  const std::string tables = path_in(folder, kTables);
  const FileEntry* weights = manifest.file(kWeightsFile);
  if (weights && file_size(path_in(tables, "drafter.json")) >= 0)
    EDGEDEC_TRY(restore_prepared(tables, weights->sha256, manifest.spec.vocab_size, drafters));
  for (const DrafterSpec& one : specs_)
    if (one.kind == DrafterKind::kExit && peeked_ && !target)
      add_exits(one, {manifest, in_pages(weights), kv_of(*peeked_)}, peeked_->forward, trimmed_ ? trimmed_->again() : nullptr, drafters);
  if (!target) return {};
  for (const DrafterSpec& one : specs_)
    if (one.kind != DrafterKind::kTable) EDGEDEC_TRY(make_one(one, *target, drafters));
  return {};
}

Status WebDrafters::make_one(const DrafterSpec& spec, const CpuTarget& target, Drafters* drafters) {
  std::unique_ptr<Drafter> made;
  const int64_t cache = target.cpu.caches().slot_bytes() * target.forward.capacity(), bytes = bytes_;
  for (auto& [kind, ready] : ready_)
    if (kind == spec.kind) made = std::move(ready);
  const CarriedKind* kind = carried_kind(spec.kind);
  if (kind && !made) EDGEDEC_TRY(make_carried(*kind, target, &made));  // again: the first one has gone
  bytes_ = bytes;
  if (spec.kind == DrafterKind::kExit)
    add_exits(spec, {target.model.manifest, target.cpu.weight_bytes(), cache}, target.forward,
              trimmed_ ? trimmed_->again() : nullptr, drafters);
  if (spec.kind == DrafterKind::kModel) {
    EDGEDEC_TRY(small_->forward->rewind(0));
    made = make_small(spec);
  }
  if (made) drafters->push_back(std::move(made));
  return {};
}

Status WebDrafters::make_carried(const CarriedKind& kind, const CpuTarget& target, std::unique_ptr<Drafter>* made) {
  const CpuFiles files = CpuFiles::of_drafter(target.folder, carried(target.folder, kind.name), kind.name);
  const Manifest& manifest = target.model.manifest;
  std::string text;
  DrafterManifest found;
  EDGEDEC_TRY(read_file(path_in(files.folder, "drafter.json"), kMostFacts, &text));
  EDGEDEC_TRY(DrafterManifest::from_json(text, &found));
  EDGEDEC_TRY(found.check_for(kind.name, manifest.file(kWeightsFile)->sha256, manifest.spec.vocab_size));
  if (kind.kind == DrafterKind::kMtp) return make_mtp(files, found, target, made);
  if (kind.kind == DrafterKind::kHead) return make_head(files, found, target, made);
  return make_assistant(files, found, target, made);
}

Status WebDrafters::make_head(const CpuFiles& files, const DrafterManifest& found, const CpuTarget& target,
                              std::unique_ptr<Drafter>* made) {
  const ModelSpec& spec = target.model.manifest.spec;
  HeadFacts facts;
  EDGEDEC_TRY(HeadFacts::of(found, &facts));
  std::vector<int> taps = facts.taps;
  if (taps.empty()) {
    const auto usual = usual_taps(spec.n_layers);
    taps.assign(usual.begin(), usual.end());
  }
  EDGEDEC_TRY(check_taps(taps, facts.width(), target));
  const LayerGraph graph = graph_of(facts, size_of_weights(files.folder), spec.vocab_size);
  std::unique_ptr<LayerForward> layer;
  int64_t bytes = 0;
  EDGEDEC_TRY(open_layer(files, graph, std::min(target.forward.capacity(), kContextOfHead), &layer, &bytes));
  bytes_ += bytes;
  *made = std::make_unique<HeadDrafter>(std::move(layer), std::move(taps));
  return {};
}

Status WebDrafters::make_mtp(const CpuFiles& files, const DrafterManifest& found, const CpuTarget& target,
                             std::unique_ptr<Drafter>* made) {
  const Manifest& manifest = target.model.manifest;
  MtpFacts facts;
  EDGEDEC_TRY(MtpFacts::of(found, &facts));
  EDGEDEC_TRY(check_taps({last_layer(manifest.spec)}, facts.hidden, target));
  const LayerGraph graph = graph_of(facts, size_of_weights(files.folder));
  const double whole = std::max(read_bytes(manifest.spec, target.cpu.weight_bytes()), 1.0);
  const LayerCost cost = {read_bytes(facts.spec(1), graph.weights) / whole, static_cast<double>(graph.sizes.head) / whole};
  std::shared_ptr<TrimmedHead> trimmed;
  if (const Status read = read_trimmed_layer(target.folder, manifest, cost, &trimmed); !read.ok())
    notes_.push_back(manifest.name + " drafts with its full head: " + read.message());
  const int64_t more = static_cast<int64_t>(HeadDrafter::kMostFed);  // for drafted tokens
  std::unique_ptr<LayerForward> layer;
  int64_t bytes = 0;
  EDGEDEC_TRY(open_layer(files, graph, target.forward.capacity() + more, &layer, &bytes));
  bytes_ += bytes;
  *made = std::make_unique<MtpDrafter>(std::move(layer), last_layer(manifest.spec), std::move(trimmed));
  return {};
}

Status WebDrafters::make_assistant(const CpuFiles& files, const DrafterManifest& found, const CpuTarget& target,
                                   std::unique_ptr<Drafter>* made) {
  const ModelSpec& spec = target.model.manifest.spec;
  AssistantFacts facts;
  EDGEDEC_TRY(AssistantFacts::of(found, &facts));
  EDGEDEC_TRY(check_taps({last_layer(spec)}, facts.target_hidden, target));
  std::unique_ptr<AssistantSteps> steps;
  int64_t bytes = 0;
  EDGEDEC_TRY(open_assistant(files, facts, CpuShape::of(spec), &target.cpu.caches(), target.forward, &steps, &bytes));
  bytes_ += bytes;
  *made = std::make_unique<AssistantDrafter>(std::move(steps), last_layer(spec));
  return {};
}

std::vector<std::string> WebDrafters::names() const {
  std::vector<std::string> found;
  for (const DrafterSpec& one : specs_)
    if (opened_ || one.kind == DrafterKind::kTable || (peeked_ && one.kind == DrafterKind::kExit)) found.push_back(one.name);
  return found;
}

}  // namespace edgedec::engine
