#include "engine/web/web_engine.h"

#include <algorithm>
#include <cstring>

#include "common/isa.h"
#include "engine/base/files.h"
#include "core/base/format.h"
#include "core/memory/sizes.h"
#include "head_topk/finish.h"
#include "head_topk/head_topk.h"
#include "recurrent/list_steps.h"
#include "rotary_table/rotary_table.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostManifest = 1 << 20, kMostTemplate = 1 << 20;

const char* isa() { return selected_isa() ? selected_isa() : "scalar"; }

Status idle() { return {Code::kUsage, "no pass was announced", "call edgedec_web_next first"}; }
Status busy() { return {Code::kUsage, "something else is under way", "bring it to its end, or stop it"}; }

}  // namespace

Status WebEngine::open(std::string_view options, std::string* out) {
  EDGEDEC_TRY(read_options(options, &options_));
  EDGEDEC_TRY(load());
  EDGEDEC_TRY(open_template());
  int64_t capacity;
  EDGEDEC_TRY(checked_capacity(manifest_.spec, options_.context, &capacity));
  EDGEDEC_TRY(drafters_.resolve(options_.draft, options_.folder, manifest_));
  forward_ = std::make_unique<AwaitedForward>(manifest_.spec, capacity, std::min(options_.max_pass, capacity));
  costs_known_ = !options_.costs.empty();
  if (costs_known_) EDGEDEC_TRY(CostCurve::make(options_.costs, true, &costs_));
  turns_ = std::make_unique<Turns>(*tokenizer_, template_.get(), manifest_, capacity, clock_, stop_);
  EDGEDEC_TRY(begin_engine());
  *out = facts();
  return {};
}

Status WebEngine::load() {
  std::string text;
  EDGEDEC_TRY(read_file(path_in(options_.folder, "manifest.json"), kMostManifest, &text));
  EDGEDEC_TRY(Manifest::from_json(text, &manifest_));
  if (manifest_.kind != "edgedec")
    return {Code::kUnsupported, "the engine does not run bundles of the kind " + quoted(manifest_.kind),
            "export the model for EdgeDec's kernels"};
  EDGEDEC_TRY(Tokenizer::open(path_in(options_.folder, kTokenizerTable), manifest_.tokenizer, &tokenizer_));
  if (static_cast<int64_t>(tokenizer_->size()) > manifest_.spec.vocab_size)
    return {Code::kBadFile, "the bundle's tokenizer has more tokens than its model", "export the model again"};
  return {};
}

Status WebEngine::open_template() {
  const TokenizerInfo& info = manifest_.tokenizer;
  if (!info.chat_template) return {};
  EDGEDEC_TRY(read_file(path_in(options_.folder, kTemplateFile), kMostTemplate, &source_));
  EDGEDEC_TRY(read_file(path_in(options_.folder, kTemplateProgram), kMostTemplate, &program_));
  const std::string_view bos = info.bos_id < 0 ? "" : tokenizer_->spelling(info.bos_id);
  const std::string_view eos = info.eos_ids.empty() ? "" : tokenizer_->spelling(info.eos_ids[0]);
  template_ = std::make_unique<ChatTemplate>();
  return ChatTemplate::open(program_, source_, bos, eos, template_.get());
}

// Makes drafters, where their costs are known, and an engine with an empty cache.
Status WebEngine::begin_engine() {
  speculation_.reset();
  const std::optional<CpuTarget> target = cpu_target();
  Drafters drafters;
  if (costs_known_) EDGEDEC_TRY(drafters_.make(options_.folder, manifest_, target ? &*target : nullptr, &drafters));
  if (!drafters.empty()) {
    Speculation::Setting setting;
    setting.costs = &costs_;
    setting.limit = static_cast<int>(options_.draft_tokens);
    setting.clock = &clock_;
    setting.keeper = this;
    setting.notice = this;
    speculation_ = std::make_unique<Speculation>(std::move(drafters), setting);
  }
  Engine::Setting setting;
  setting.speculation = speculation_.get();
  engine_ = std::make_unique<Engine>(*forward_, setting);
  return engine_->reset();
}

// The model on the CPU, if there is one.
std::optional<CpuTarget> WebEngine::cpu_target() {
  if (!cpu_) return std::nullopt;
  return CpuTarget{options_.folder, {manifest_, *tokenizer_}, *cpu_, *forward_};
}

Status WebEngine::measure() {
  if (doing_ != Doing::kNothing) return busy();
  EDGEDEC_TRY(engine_->reset());
  series_ = std::make_unique<CostSeries>(forward_->capacity(), forward_->max_pass());
  zeros_.assign(kMostTimed, 0);
  began_ = clock_.now();
  doing_ = Doing::kMeasuring;
  return {};
}

Status WebEngine::begin(std::string_view text, std::string* out) {
  if (doing_ != Doing::kNothing) return busy();
  WebRequest request;
  EDGEDEC_TRY(read_request(text, manifest_.preset, &request));
  ReplyRequest& reply = request.reply;
  reply.user = this;
  reply.on_token = [](void* user, const edgedec_token* token) {
    static_cast<WebEngine*>(user)->hear(*token);
    return 0;
  };
  stop_.clear();
  heard();
  const Speculation* speculation = speculation_.get();
  switch (request.kind) {
    case WebRequest::kMessages:
      EDGEDEC_TRY(turns_->begin(std::move(request.messages), std::move(reply), *engine_, speculation));
      break;
    case WebRequest::kText:
      EDGEDEC_TRY(turns_->begin(std::string_view(request.text), std::move(reply), *engine_, speculation));
      break;
    case WebRequest::kTokens:
      EDGEDEC_TRY(turns_->begin(Span<const int32_t>(request.tokens), std::move(reply), *engine_, speculation));
      break;
    case WebRequest::kMore: EDGEDEC_TRY(turns_->begin_more(std::move(reply), *engine_, speculation));
  }
  doing_ = Doing::kReply;
  const Turns::Begun begun = turns_->begun();
  JsonWriter json;
  json.begin_object().key("prompt_tokens").whole(begun.prompt).key("reused_tokens").whole(begun.reused);
  *out = json.key("dropped_messages").whole(begun.dropped).end_object().take();
  return {};
}

Status WebEngine::next(bool* wanted, std::string* out) {
  *wanted = announced_;
  if (announced_) return {};
  if (doing_ == Doing::kNothing) return {Code::kUsage, "nothing was begun", "call edgedec_web_begin first"};
  const WantedPass* pass = nullptr;
  EDGEDEC_TRY(doing_ == Doing::kReply ? next_of_reply(&pass, out) : next_of_measuring(&pass, out));
  if (!pass) return {};
  if (Status found = forward_->announce(*pass); !found.ok()) {
    if (doing_ == Doing::kReply) found = turns_->end(found);
    doing_ = Doing::kNothing;
    return found;
  }
  *wanted = announced_ = true;
  return {};
}

Status WebEngine::next_of_reply(const WantedPass** pass, std::string* out) {
  *pass = stop_.is_set() ? nullptr : engine_->plan();
  if (*pass) return {};
  doing_ = Doing::kNothing;
  EDGEDEC_TRY(turns_->end({}));
  *out = figures();
  return {};
}

Status WebEngine::next_of_measuring(const WantedPass** pass, std::string* out) {
  const int size = series_->next();
  const bool enough = !size || (series_->may_end() && clock_.now() - began_ > series_->patience());
  EDGEDEC_TRY(forward_->rewind(0));
  if (enough || stop_.is_set()) return end_measuring(out);
  timed_ = {Span<const int32_t>(zeros_).first(static_cast<size_t>(size)), {}, Rows::all(), &timed_rows_};
  *pass = &timed_;
  return {};
}

Status WebEngine::end_measuring(std::string* out) {
  doing_ = Doing::kNothing;
  if (!stop_.is_set()) {
    options_.costs = series_->points();
    EDGEDEC_TRY(CostCurve::make(options_.costs, false, &costs_));
    costs_known_ = true;
    EDGEDEC_TRY(begin_engine());
  }
  stop_.clear();
  JsonWriter json;
  write_costs(options_.costs, &json.begin_object().key("costs"));
  *out = json.end_object().take();
  return {};
}

Status WebEngine::announced() const { return announced_ || forward_->peeking() ? Status() : idle(); }

Status WebEngine::give(double seconds, std::string* out) {
  EDGEDEC_TRY(announced());
  announced_ = false;
  Status done = forward_->arrived();
  if (doing_ == Doing::kMeasuring) {
    if (done.ok()) series_->took(seconds);
    else doing_ = Doing::kNothing;
  } else {
    if (done.ok()) done = engine_->settle(seconds, turns_->listener());
    if (!done.ok()) {
      done = turns_->end(done);
      doing_ = Doing::kNothing;
    }
  }
  *out = heard();
  return done;
}

void WebEngine::lost() {
  announced_ = false;
  forward_->lost();
}

Status WebEngine::forget() {
  if (doing_ != Doing::kNothing) return busy();
  turns_->forget();
  return engine_->reset();
}

Status WebEngine::use_peeks(std::string_view text, std::function<int32_t()> peek, std::string* out) {
  if (announced_) return busy();
  if (cpu_ || !peek) return {Code::kUsage, "there is no device that peeks", "see edgedec_web.h"};
  std::vector<int> exits;
  EDGEDEC_TRY(read_exits(text, manifest_.spec.n_layers, &exits));
  forward_->use(std::move(exits), std::move(peek));
  if (doing_ == Doing::kNothing && !turns_->figures().any) {
    EDGEDEC_TRY(drafters_.open({options_.folder, manifest_, *forward_}));
    EDGEDEC_TRY(begin_engine());
  }
  *out = facts();
  return {};
}

// Keys and values are kept as int8 where those of fp16 do not fit.
Status WebEngine::use_cpu(std::string* out) {
  if (announced_) return busy();
  Status opened = open_cpu(KvType::kFp16);
  const bool tight = opened.ok() ? options_.memory && planned() > options_.memory : opened.code() == Code::kNoMemory;
  if (tight) opened = open_cpu(KvType::kInt8);
  EDGEDEC_TRY(opened);
  if (doing_ == Doing::kNothing && !turns_->figures().any) {  // else the conversation goes on with the drafters that it has
    EDGEDEC_TRY(drafters_.resolve(options_.draft, options_.folder, manifest_));
    EDGEDEC_TRY(drafters_.open(*cpu_target(), options_.memory ? options_.memory - planned() : INT64_MAX));
    EDGEDEC_TRY(begin_engine());
  }
  *out = facts();
  return {};
}

Status WebEngine::open_cpu(KvType kv) {
  const CpuShape shape = CpuShape::of(manifest_.spec);
  auto caches = std::make_unique<CpuCaches>();
  EDGEDEC_TRY(caches->allocate(shape, forward_->capacity(), kv));
  std::unique_ptr<CpuModel> made;
  const auto most = static_cast<size_t>(forward_->max_pass());
  EDGEDEC_TRY(CpuModel::open(CpuFiles::of_model(options_.folder), shape, most, caches.get(), &made));
  forward_->use(*made);
  cpu_ = std::move(made);
  caches_ = std::move(caches);
  return {};
}

// Bytes of the model, its caches and passes, and its drafters; and what the module takes beside them.
int64_t WebEngine::planned() const {
  constexpr int64_t kModule = 16 << 20;
  return cpu_->weight_bytes() + cpu_->pass_bytes() + caches_->bytes() + drafters_.bytes() + kModule;
}

Status WebEngine::compute() {
  EDGEDEC_TRY(announced());
  return forward_->compute();
}

Status WebEngine::rotary(const float* inv_freq, size_t half, float* table) const {
  EDGEDEC_TRY(announced());
  const std::vector<int64_t>& positions = forward_->positions();
  rotary_table::find_row(float_row(isa()))->run(positions.data(), inv_freq, table, 0, positions.size(), 2 * half);
  return {};
}

Status WebEngine::steps(size_t behind, size_t taps, uint32_t* steps) const {
  EDGEDEC_TRY(announced());
  const edgedec_web_pass& pass = forward_->pass();
  const std::vector<int64_t> parents(pass.parents, pass.parents + pass.tokens);
  if (behind > pass.length) return {Code::kUsage, "fewer tokens are resident", "see edgedec_web.h"};
  const recurrent::Walked one = {parents.data(), pass.tokens, pass.length, pass.length - behind};
  if (const char* wrong = recurrent::listing_problem(one, taps)) return {Code::kUsage, wrong, "see edgedec_web.h"};
  return recurrent::list_steps(one, taps, steps) ? Status() : Status(Code::kNoMemory, "there is no memory for a pass");
}

// Ends a row by the function that programs with GPUs call for all rows.
Status WebEngine::head(uint32_t row, const float* sums, size_t blocks, Span<const int32_t> ids, const float* coarse,
                       const float* fine, float softcap) {
  EDGEDEC_TRY(announced());
  const edgedec_web_pass& pass = forward_->pass();
  const size_t k = pass.k, all = pass.vocabulary, entries = pass.kept ? pass.kept : all;
  if (row >= pass.rows || blocks != (entries + head_topk::kBlock - 1) / head_topk::kBlock || ids.size() > k)
    return {Code::kUsage, "the head has no such row, or other numbers of blocks and entries", "see edgedec_web.h"};
  std::vector<uint32_t> candidates(2 * k, UINT32_MAX);
  for (size_t at = 0; at < ids.size(); ++at) {
    candidates[2 * at] = static_cast<uint32_t>(ids[at]);
    std::memcpy(&candidates[2 * at + 1], coarse + at, sizeof(float));
  }
  std::vector<float> precise(fine ? k : 0);
  std::copy_n(fine, fine ? ids.size() : 0, precise.begin());
  const int rows = static_cast<int>(all), computed = static_cast<int>(entries);
  const int code = edgedec_head_finish(
      isa(), sums, candidates.data(), fine ? precise.data() : nullptr, 1, rows, computed, static_cast<int>(k), softcap,
      forward_->temperature(), pass.values + row * k, pass.ids + row * k, pass.logsumexp + row, pass.entropy + row,
      pass.logits ? pass.logits + row * all : nullptr);
  return code ? Status(Code::kBackend, "the device computes a head that is none", "run on the CPU") : Status();
}

}  // namespace edgedec::engine
