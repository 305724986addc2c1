#include "engine/capi/run.h"

#include <algorithm>

#include "common/isa.h"
#include "engine/base/cores.h"
#include "engine/base/files.h"
#include "core/base/format.h"
#include "engine/base/version.h"
#include "engine/decode/table_drafters.h"
#include "engine/drafters/own_layers.h"
#include "common/os/process.h"
#include "core/memory/units.h"
#include "core/sampling/needs.h"
#include "engine/capi/form.h"

namespace edgedec::engine {
namespace {

constexpr int kMostDrafted = 15;  // tokens of a pass beside the committed one; passes get expensive beyond 16 tokens
constexpr std::string_view kMapped[] = {kWeightsFile, kTokenizerTable};

Status check_config(const RunConfig& config) {
  if (config.threads) EDGEDEC_TRY(check_threads(config.threads));
  if (config.draft_tokens < 1 || config.draft_tokens > kMostDrafted)
    return {Code::kUsage, decimal(config.draft_tokens) + " drafted tokens are not possible", "use 1 to " + decimal(kMostDrafted)};
  if (config.context == 1) return {Code::kUsage, "1 tokens of context are not possible", "use 2 or more"};
  return {};
}

// The line about experts that are not all in memory.
std::string told_of(const ExpertStore& experts) {
  const std::string total = decimal(experts.sizes().total());
  if (experts.slots() == experts.sizes().total())
    return "note: there is room for all " + total + " experts; each is read when a token first needs it";
  return "note: " + decimal(experts.slots()) + " of " + total + " experts are in memory at a time; tokens read the others from the disk";
}

}  // namespace

Status Run::prepare(const RunConfig& config) {
  config_ = config;
  EDGEDEC_TRY(check_config(config));
  const double began = clock_.now();
  EDGEDEC_TRY(load());
  load_s_ = clock_.now() - began;
  return plan();
}

Status Run::load() {
  EDGEDEC_TRY(Manifest::load(config_.folder, config_.verify, &manifest_));
  if (manifest_.kind != "edgedec")
    return {Code::kUnsupported, "the native engine does not run bundles of the kind " + quoted(manifest_.kind),
            "export the model for EdgeDec's kernels"};
  EDGEDEC_TRY(resolve_drafters(config_.draft, config_.folder, manifest_, &drafters_));
  OpenOptions options{config_.threads ? config_.threads : os::physical_cores(), true, has(DrafterKind::kExit), {}, {config_.memory, beside()}};
  for (const DrafterSpec& one : drafters_) {
    const CarriedKind* kind = carried_kind(one.kind);
    if (!kind) continue;
    options.drafting = true;
    const std::vector<int> taps = carried_taps(*kind, {config_.folder, manifest_});
    options.taps.insert(options.taps.end(), taps.begin(), taps.end());
  }
  if (options.drafting && !manifest_.file(kDraftingFile))
    return no_exits(manifest_.name);
  if (config_.runtime_api) EDGEDEC_TRY(Runtime::of(config_.runtime_api, &runtime_));
  else EDGEDEC_TRY(Runtime::load(config_.runtime_path, &runtime_));
  EDGEDEC_TRY(OnnxModel::open(runtime_, config_.folder, manifest_.spec, manifest_.file(kWeightsFile)->bytes,
                              options, &model_));
  EDGEDEC_TRY(Tokenizer::open(path_in(config_.folder, kTokenizerTable), manifest_.tokenizer, &tokenizer_));
  if (static_cast<int64_t>(tokenizer_->size()) > manifest_.spec.vocab_size)
    return {Code::kBadFile,
            "the bundle's tokenizer has " + decimal(uint64_t{tokenizer_->size()}) + " tokens, and its model " +
                decimal(manifest_.spec.vocab_size),
            "pull or export the model again"};
  return open_drafters();
}

Status Run::plan() {
  const ModelSpec& spec = manifest_.spec;
  MemoryWish wish;
  EDGEDEC_TRY(checked_capacity(spec, config_.context, &wish.capacity));
  wish.memory = config_.memory;
  wish.named_context = config_.context > 0;
  wish.kv = config_.kv;
  wish.longest_pass = kLongestPass;
  wish.drafted = drafters_.empty() ? 0 : config_.draft_tokens;
  for (const DrafterSpec& one : drafters_) wish.tables += useful_bytes(one.name);
  MemoryFacts facts;
  facts.target = model_->memory();
  wish.experts = facts.target.least_experts;
  facts.process = measured_process({kMapped, std::size(kMapped)}) + static_cast<int64_t>(tokenizer_->mapped_bytes());
  facts.drawing = static_cast<int64_t>(drawing_bytes(manifest_.preset.sampling, 64));
  for (const Carried& one : carried_) facts.drafters.push_back(one.drafter->memory());
  if (small_) facts.drafters.push_back(small_->memory());
  facts.unnamed = unnamed();
  if (small_ && !spares(facts, wish)) {
    close(DrafterKind::kModel);
    return plan();
  }
  EDGEDEC_TRY(Budget::make(facts, wish, &budget_));
  for (const std::string& line : budget_->plan().given_up)
    tell("memory budget " + size_text(budget_->plan().budget) + ", " + line);
  if (ExpertStore* experts = model_->experts()) {
    experts->limit(budget_->plan().choice.experts);
    tell(told_of(*experts));
  }
  if (!budget_->plan().choice.model_drafts)
    for (DrafterKind kind : {DrafterKind::kHead, DrafterKind::kMtp, DrafterKind::kAssistant, DrafterKind::kModel}) close(kind);
  return {};
}

Status Run::start() {
  const MemoryChoice& choice = budget_->plan().choice;
  const CacheConfig cache = {choice.context, choice.kv, budget_->longest_pass()};
  EDGEDEC_TRY(model_->forward(cache, &budget_->ledger(), &forward_));
  if (!config_.cost_folder.empty()) {
    std::vector<std::string> conditions = {kVersionText, manifest_.file(kWeightsFile)->sha256, selected_isa(),
                                           decimal(model_->threads()), os::cpu_name()};
    if (choice.kv == KvType::kInt8) conditions.push_back("int8");
    if (experts()) conditions.push_back("experts on a disk");
    cost_file_ = std::make_unique<CostFile>(config_.cost_folder, std::move(conditions), &surroundings_);
  }
  if (experts()) costs_.resident = static_cast<double>(experts()->slots()) / static_cast<double>(manifest_.spec.experts.total());
  const bool drafts = !drafters_.empty() && choice.drafted > 0;
  if (drafts) EDGEDEC_TRY(costs_.know(*forward_, cost_file_.get(), clock_, notice_));
  return begin_engine();
}

Status Run::begin_engine() {
  const MemoryChoice& choice = budget_->plan().choice;
  speculation_.reset();
  tables_.release();
  if (!drafters_.empty() && choice.drafted > 0) {
    Drafters drafters;
    EDGEDEC_TRY(make_drafters(&drafters));
    Speculation::Setting setting;
    setting.costs = &costs_.costs();
    setting.limit = static_cast<int>(choice.drafted);
    setting.clock = &clock_;
    setting.notice = notice_;
    setting.keeper = &costs_;
    speculation_ = std::make_unique<Speculation>(std::move(drafters), setting);
  }
  Engine::Setting setting;
  setting.speculation = speculation_.get();
  setting.clock = speculation_ ? &clock_ : nullptr;
  setting.ledger = &budget_->ledger();
  engine_ = std::make_unique<Engine>(*forward_, setting);
  return engine_->reset();
}

Status Run::make_room_for(const DrawParams& params, bool formed) {
  const size_t before = budget_->plan().given_up.size();
  const auto drawing = static_cast<int64_t>(drawing_bytes(params, 64, {false, formed}));
  EDGEDEC_TRY(budget_->draw(drawing, formed ? Forms::nbytes(manifest_.spec) : 0));
  const MemoryPlan& plan = budget_->plan();
  for (size_t at = before; at < plan.given_up.size(); ++at)
    tell("memory budget " + size_text(plan.budget) + ", " + plan.given_up[at]);
  if (ExpertStore* experts = model_->experts()) experts->limit(plan.choice.experts);
  if (speculation_) speculation_->draft_at_most(static_cast<int>(plan.choice.drafted));
  return {};
}

Status Run::measure_again() {
  EDGEDEC_TRY(engine_->reset());
  if (!speculation_) return {};
  EDGEDEC_TRY(costs_.know(*forward_, cost_file_.get(), clock_, notice_, true));
  return begin_engine();
}

}  // namespace edgedec::engine
