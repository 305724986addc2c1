#include "engine/model/head_forward.h"

#include <algorithm>
#include <cmath>

#include "engine/bundle/manifest.h"
#include "core/memory/footprint.h"
#include "core/memory/sizes.h"
#include "engine/model/ports.h"
#include "engine/model/session.h"

namespace edgedec::engine {
namespace {

constexpr const char* kHeadGraph = "head.onnx";
constexpr const char* kAgain = "make the drafter again, or remove it";
constexpr size_t kMostKeptSteps = 64;
constexpr double kNumberEnd = 2147483648.0;

Status wrong_graph() {
  return {Code::kBadFile, std::string(kHeadGraph) + " of the drafter is not the head that its manifest describes", kAgain};
}

bool is_vector(const Ports::Port* port) { return port && port->dims.size() == 1; }

// kBadFile unless the graph has the inputs and outputs that the facts state.
Status check_head(const Runtime& runtime, const OrtSession* session, const HeadFacts& facts) {
  Ports in, out;
  EDGEDEC_TRY(in.read_inputs(runtime, session));
  EDGEDEC_TRY(out.read_outputs(runtime, session));
  bool right = in.all.size() == 9 && has_columns(in.find("taps"), kHeadTaps * facts.hidden) &&
               has_columns(in.find("states"), facts.hidden) && has_columns(out.find("out"), facts.hidden) &&
               has_columns(out.find("values"), facts.head_k) && has_columns(out.find("ids"), facts.head_k);
  for (const char* name : {"tokens", "positions", "parents", "rows", "length"}) right = right && is_vector(in.find(name));
  for (const char* name : {"logsumexp", "entropy"}) right = right && is_vector(out.find(name));
  const Ports::Port *table = in.find("table"), *cache = in.find("kv_cache");
  right = right && table && table->dims == std::vector<int64_t>{facts.table_tiles, facts.table_tile_bytes};
  right = right && cache && cache->dims.size() == 5 && cache->dims[0] == 1 && cache->dims[1] == 2 &&
          cache->dims[2] == facts.kv_heads;
  return right ? Status() : wrong_graph();
}

}  // namespace

Status HeadFacts::of(const DrafterManifest& manifest, HeadFacts* facts) {
  struct {
    const char* name;
    int64_t* value;
  } const fields[] = {{"hidden", &facts->hidden},     {"heads", &facts->heads},
                      {"kv_heads", &facts->kv_heads}, {"head_dim", &facts->head_dim},
                      {"ffn", &facts->ffn},           {"ids", &facts->ids},
                      {"head_k", &facts->head_k},     {"table_offset", &facts->table_offset},
                      {"table_tiles", &facts->table_tiles}, {"table_tile_bytes", &facts->table_tile_bytes}};
  for (const auto& field : fields) {
    const double* stated = manifest.number(field.name);
    const bool offset = field.value == &facts->table_offset;
    if (!stated) return {Code::kBadFile, std::string("the drafting head does not state its ") + field.name};
    if (*stated != std::floor(*stated) || *stated < (offset ? 0.0 : 1.0) || *stated >= (offset ? kNumberEnd * 1024 : kNumberEnd))
      return {Code::kBadFile, std::string("the drafting head states an impossible ") + field.name};
    *field.value = static_cast<int64_t>(*stated);
  }
  return {};
}

ModelSpec HeadFacts::spec(int64_t context) const {
  ModelSpec spec;
  spec.name = "drafting head";
  spec.architecture = "head";
  spec.vocab_size = ids;
  spec.n_layers = 1;
  spec.n_heads = heads;
  spec.n_kv_heads = kv_heads;
  spec.head_dim = head_dim;
  spec.hidden_size = hidden;
  spec.context_length = context;
  spec.head_k = head_k;
  spec.ffn_size = ffn;
  return spec;
}

Status HeadModel::open(const Runtime& runtime, const std::string& folder, const std::string& target, const HeadFacts& facts,
                       int64_t vocab_size, int threads, std::unique_ptr<HeadModel>* model) {
  std::unique_ptr<HeadModel> made(new HeadModel);
  made->runtime_ = runtime;
  made->facts_ = facts;
  made->vocab_size_ = vocab_size;
  made->threads_ = threads;
  EDGEDEC_TRY(made->table_.open(path_in(target, kWeightsFile)));
  if (facts.table_offset + facts.table_tiles * facts.table_tile_bytes > static_cast<int64_t>(made->table_.size()))
    return {Code::kBadFile, "the drafting head expects a table outside the weights of its target", kAgain};
  made->weight_bytes_ = file_size(path_in(folder, kWeightsFile));
  EDGEDEC_TRY(open_session(runtime, folder, kHeadGraph, threads, true, &made->session_));
  EDGEDEC_TRY(check_head(runtime, made->session_.get(), facts));
  *model = std::move(made);
  return {};
}

Status HeadModel::forward(int64_t capacity, Ledger* ledger, std::unique_ptr<HeadForward>* forward) {
  KvMemory kv;
  EDGEDEC_TRY(kv.allocate(facts_.spec(capacity), capacity, KvType::kFp16, 0, ledger));
  auto made = std::make_unique<HeadForward>(*this, std::move(kv), ledger);
  EDGEDEC_TRY(made->lease());
  *forward = std::move(made);
  return {};
}

HeadForward::HeadForward(const HeadModel& model, KvMemory kv, Ledger* ledger)
    : model_(model),
      kv_(std::move(kv)),
      longest_(std::min(kHeadLongestPass, kv_.capacity())),
      book_(kv_.capacity()),
      length_(1),
      scratch_(ledger, "scratch"),
      buffers_(ledger, "buffers") {
  const auto n = static_cast<size_t>(longest_), d = static_cast<size_t>(model.facts_.hidden);
  const auto k = static_cast<size_t>(model.facts_.head_k);
  taps_.resize(n * kHeadTaps * d);
  for (auto* one : {&states_, &out_}) one->resize(n * d);
  for (auto* one : {&logsumexp_, &entropy_}) one->resize(n);
  for (auto* one : {&tokens_, &positions_, &parents_, &rows_}) one->resize(n);
  values_.resize(n * k);
  ids_.resize(n * k);
}

Status HeadForward::lease() {
  const HeadFacts& facts = model_.facts_;
  EDGEDEC_TRY(scratch_.grow(scratch_bytes(facts.spec(capacity()), model_.threads_, longest_, capacity(), 0)));
  return buffers_.grow(longest_ * (4 * (6 * facts.hidden + 4 * facts.head_k + 4) + 5 * 8));
}

Status HeadForward::rewind(int64_t length) { return book_.rewind(length); }

Status HeadForward::bind(int64_t committed, int64_t drafted, int64_t rows, OrtIoBinding* binding) {
  const Runtime& runtime = model_.runtime_;
  const HeadFacts& facts = model_.facts_;
  const auto tie = [&](bool input, const char* name, const void* data, int type, size_t width,
                       std::vector<int64_t> dims) -> Status {
    static int64_t nothing = 0;  // an address for tensors without elements
    size_t bytes = width;
    for (int64_t dim : dims) bytes *= static_cast<size_t>(dim);
    OrtValue* made = nullptr;
    EDGEDEC_TRY(runtime.check(runtime.api().CreateTensorWithDataAsOrtValue()(
        runtime.memory(), bytes ? const_cast<void*>(data) : &nothing, bytes, dims.data(), dims.size(), type, &made)));
    const ValueOwner value(made, {runtime.api()});
    return runtime.check(input ? runtime.api().BindInput()(binding, name, made) : runtime.api().BindOutput()(binding, name, made));
  };
  const int64_t tokens = committed + drafted;
  constexpr size_t kWord = sizeof(int64_t), kSingle = sizeof(float);
  EDGEDEC_TRY(tie(true, "taps", taps_.data(), ort::kFloat, kSingle, {committed, kHeadTaps * facts.hidden}));
  EDGEDEC_TRY(tie(true, "states", states_.data(), ort::kFloat, kSingle, {drafted, facts.hidden}));
  EDGEDEC_TRY(tie(true, "tokens", tokens_.data(), ort::kInt64, kWord, {tokens}));
  EDGEDEC_TRY(tie(true, "positions", positions_.data(), ort::kInt64, kWord, {tokens}));
  EDGEDEC_TRY(tie(true, "parents", parents_.data(), ort::kInt64, kWord, {tokens}));
  EDGEDEC_TRY(tie(true, "length", length_.data(), ort::kInt64, kWord, {1}));
  EDGEDEC_TRY(tie(true, "rows", rows_.data(), ort::kInt64, kWord, {rows}));
  EDGEDEC_TRY(tie(true, "table", model_.table_.data() + facts.table_offset, ort::kUint8, 1,
                  {facts.table_tiles, facts.table_tile_bytes}));
  const KvPages& whole = kv_.whole();
  EDGEDEC_TRY(tie(true, "kv_cache", whole.data(), ort::kFloat16, 2, {whole.shape(), whole.shape() + 5}));
  EDGEDEC_TRY(tie(false, "out", out_.data(), ort::kFloat, kSingle, {tokens, facts.hidden}));
  EDGEDEC_TRY(tie(false, "values", values_.data(), ort::kFloat, kSingle, {rows, facts.head_k}));
  EDGEDEC_TRY(tie(false, "ids", ids_.data(), ort::kInt32, sizeof(int32_t), {rows, facts.head_k}));
  EDGEDEC_TRY(tie(false, "logsumexp", logsumexp_.data(), ort::kFloat, kSingle, {rows}));
  return tie(false, "entropy", entropy_.data(), ort::kFloat, kSingle, {rows});
}

Status HeadForward::bound(int64_t committed, int64_t drafted, int64_t rows, const OrtIoBinding** binding) {
  for (const Bound& one : kept_)
    if (one.committed == committed && one.drafted == drafted && one.rows == rows) {
      *binding = one.binding.get();
      return {};
    }
  if (kept_.size() == kMostKeptSteps) kept_.clear();
  const Runtime& runtime = model_.runtime_;
  OrtIoBinding* made = nullptr;
  EDGEDEC_TRY(runtime.check(runtime.api().CreateIoBinding()(model_.session_.get(), &made)));
  BindingOwner owner(made, {runtime.api()});
  EDGEDEC_TRY(bind(committed, drafted, rows, made));
  kept_.push_back({committed, drafted, rows, std::move(owner)});
  *binding = made;
  return {};
}

Status HeadForward::step(Span<const int32_t> tokens, Span<const float> taps, Span<const float> states,
                         Span<const int> parents, Span<const int> rows, HeadRows* found, Span<const float>* out) {
  const HeadFacts& facts = model_.facts_;
  const auto committed = static_cast<int64_t>(taps.size()) / (kHeadTaps * facts.hidden);
  const auto drafted = static_cast<int64_t>(states.size()) / facts.hidden;
  const auto count = static_cast<int64_t>(tokens.size());
  if (committed + drafted != count || count > longest_) return {Code::kUsage, "a head's pass has other states than tokens"};
  EDGEDEC_TRY(book_.plan(count, parents, &planned_));
  EDGEDEC_TRY(kv_.use());
  std::copy(tokens.begin(), tokens.end(), tokens_.begin());
  std::copy(planned_.positions.begin(), planned_.positions.end(), positions_.begin());
  std::copy(planned_.parents.begin(), planned_.parents.end(), parents_.begin());
  std::copy(rows.begin(), rows.end(), rows_.begin());
  std::copy(taps.begin(), taps.end(), taps_.begin());
  std::copy(states.begin(), states.end(), states_.begin());
  length_[0] = planned_.start;
  const OrtIoBinding* binding = nullptr;
  EDGEDEC_TRY(bound(committed, drafted, static_cast<int64_t>(rows.size()), &binding));
  const Runtime& runtime = model_.runtime_;
  EDGEDEC_TRY(runtime.check(runtime.api().RunWithBinding()(model_.session_.get(), nullptr, binding)));
  const size_t entries = rows.size() * static_cast<size_t>(facts.head_k);
  for (size_t row = 0; row < rows.size(); ++row)
    if (!std::isfinite(logsumexp_[row])) return {Code::kBadFile, "the drafting head computes values that are not numbers", kAgain};
  for (size_t at = 0; at < entries; ++at)
    if (ids_[at] < 0 || ids_[at] >= model_.vocab_size_)
      return {Code::kBadFile, "the drafting head predicts ids outside the vocabulary", kAgain};
  found->rows = rows.size();
  found->k = static_cast<size_t>(facts.head_k);
  found->values.assign(values_.begin(), values_.begin() + static_cast<long>(entries));
  found->ids.assign(ids_.begin(), ids_.begin() + static_cast<long>(entries));
  found->logsumexp.assign(logsumexp_.begin(), logsumexp_.begin() + static_cast<long>(rows.size()));
  found->entropy.assign(entropy_.begin(), entropy_.begin() + static_cast<long>(rows.size()));
  *out = {out_.data(), tokens.size() * static_cast<size_t>(facts.hidden)};
  book_.append(planned_);
  return {};
}

}  // namespace edgedec::engine
