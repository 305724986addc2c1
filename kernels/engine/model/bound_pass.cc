#include "engine/model/bound_pass.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace edgedec::engine {
namespace {

constexpr int64_t kWithResults = 2;  // head results are handed out as copies of the buffers that a pass keeps
constexpr size_t kShort = 32;  // passes up to this many tokens recur (decoding, verification) and keep their buffers
constexpr size_t kMostKeptPasses = 128;

template <class To, class From>
void fill(std::vector<To>* to, Span<const From> from) {
  std::copy(from.begin(), from.end(), to->begin());
}

// Makes room for so many numbers, and no more; the old ones are not copied.
void resize(Logits* logits, size_t count) {
  if (count > logits->capacity()) Logits().swap(*logits);
  logits->resize(count);
}

}  // namespace

BoundPass::BoundPass(const PassSetting& setting, const PassShape& shape)
    : setting_(setting),
      shape_(shape),
      tokens_(shape.tokens),
      positions_(shape.placed),
      parents_(shape.placed),
      rows_(shape.rows),
      length_(1),
      want_(1, shape.full),
      logsumexp_(shape.rows),
      entropy_(shape.rows),
      temperature_(1, 1.0f),
      lease_(setting.ledger, kSlack) {
  const auto k = static_cast<size_t>(setting.spec.head_k);
  values_.resize(shape.rows * k);
  ids_.resize(shape.rows * k);
}

Status BoundPass::value_of(const void* data, int type, size_t width, Span<const int64_t> dims, ValueOwner* value) {
  static int64_t nothing = 0;  // an address for tensors without elements
  size_t bytes = width;
  for (int64_t dim : dims) bytes *= static_cast<size_t>(dim);
  const Runtime& runtime = setting_.runtime;
  OrtValue* made = nullptr;
  EDGEDEC_TRY(runtime.check(runtime.api().CreateTensorWithDataAsOrtValue()(
      runtime.memory(), bytes ? const_cast<void*>(data) : &nothing, bytes, dims.data(), dims.size(), type, &made)));
  *value = ValueOwner(made, {runtime.api()});
  return {};
}

Status BoundPass::bind_input(const char* name, const void* data, int type, size_t width, Span<const int64_t> dims) {
  ValueOwner value;
  EDGEDEC_TRY(value_of(data, type, width, dims, &value));
  return setting_.runtime.check(setting_.runtime.api().BindInput()(binding_.get(), name, value.get()));
}

Status BoundPass::bind_output(const char* name, void* data, int type, size_t width, Span<const int64_t> dims) {
  ValueOwner value;
  EDGEDEC_TRY(value_of(data, type, width, dims, &value));
  return setting_.runtime.check(setting_.runtime.api().BindOutput()(binding_.get(), name, value.get()));
}

Status BoundPass::bind_logits(float* data, size_t rows) {
  const int64_t dims[] = {static_cast<int64_t>(rows), setting_.spec.vocab_size};
  return bind_output("logits", data, ort::kFloat, sizeof(float), {dims, 2});
}

Status BoundPass::bind_caches() {
  const KvPages& whole = setting_.kv.whole();
  EDGEDEC_TRY(bind_input("kv_cache", whole.data(), ort::kFloat16, 2, {whole.shape(), 5}));
  if (const KvPages* rings = setting_.kv.rings())
    EDGEDEC_TRY(bind_input("kv_window", rings->data(), ort::kFloat16, 2, {rings->shape(), 5}));
  const KvStates& states = setting_.kv.states();
  const int64_t one = 1;
  if (states.any()) EDGEDEC_TRY(bind_input(kAppliedInput, states.applied(), ort::kInt64, sizeof(int64_t), {&one, 1}));
  for (size_t at = 0; at < states.memory().kinds().size(); ++at) {
    const States& kind = states.memory().kinds()[at];
    const int64_t rows[] = {kind.layers, kTrailSlots, kind.row}, state[] = {kind.layers, one, kind.state};
    EDGEDEC_TRY(bind_input(trail_input(kind).c_str(), states.memory().trail(at), ort::kFloat, sizeof(float), {rows, 3}));
    if (!kind.state) continue;
    EDGEDEC_TRY(bind_input(state_input(kind).c_str(), states.memory().state(at), ort::kFloat, sizeof(float), {state, 3}));
  }
  return {};
}

// Binds the inputs of exits that the shape decides; no warm rows, and no ids to keep.
Status BoundPass::bind_exits() {
  const std::vector<int>& exits = setting_.exits.exits;
  if (setting_.exits.taps.empty()) return {};
  places_.resize(shape_.tokens + shape_.warm);
  std::iota(places_.begin(), places_.end(), int64_t{0});
  EDGEDEC_TRY(bind_keep({}));
  for (int exit : exits) {
    EDGEDEC_TRY(bind_warm(exit, {}));
    if (exit == exits.back()) break;
    const bool ends = exit == shape_.exit;
    const auto going = static_cast<int64_t>(ends ? 0 : shape_.tokens_through(exit - 1));
    const auto rows = static_cast<int64_t>(ends ? shape_.rows : 0);
    EDGEDEC_TRY(bind_input(Exits::passing(exit).c_str(), places_.data(), ort::kInt64, sizeof(int64_t), {&going, 1}));
    EDGEDEC_TRY(bind_input(Exits::rows(exit).c_str(), rows_.data(), ort::kInt64, sizeof(int64_t), {&rows, 1}));
  }
  return {};
}

Status BoundPass::bind_warm(int exit, Span<const float> warm) {
  const int64_t width = setting_.exits.hidden_size;
  const int64_t dims[] = {static_cast<int64_t>(warm.size()) / width, width};
  return bind_input(Exits::warm(exit).c_str(), warm.data(), ort::kFloat, sizeof(float), {dims, 2});
}

Status BoundPass::bind_keep(Span<const int64_t> keep) {
  const auto count = static_cast<int64_t>(keep.size());
  keep_ = keep;
  return bind_input("keep", keep.data(), ort::kInt64, sizeof(int64_t), {&count, 1});
}

// Gives the next run memory for the outputs of layers.
Status BoundPass::bind_states(LayerStates* states) {
  const auto width = static_cast<size_t>(setting_.exits.hidden_size);
  states->layers = shape_.states;
  states->rows.resize(std::max(states->rows.size(), states->layers.size()));
  for (size_t at = 0; at < states->layers.size(); ++at) {
    const int layer = states->layers[at];
    const size_t count = shape_.tokens_through(layer);
    states->rows[at].resize(count * width);
    const int64_t dims[] = {static_cast<int64_t>(count), setting_.exits.hidden_size};
    EDGEDEC_TRY(bind_output(Exits::out(layer).c_str(), states->rows[at].data(), ort::kFloat, sizeof(float), {dims, 2}));
  }
  return {};
}

Status BoundPass::bind() {
  const Runtime& runtime = setting_.runtime;
  OrtIoBinding* binding = nullptr;
  EDGEDEC_TRY(runtime.check(runtime.api().CreateIoBinding()(setting_.session, &binding)));
  binding_ = BindingOwner(binding, {runtime.api()});
  const auto tokens = static_cast<int64_t>(shape_.tokens), rows = static_cast<int64_t>(shape_.rows);
  const auto placed = static_cast<int64_t>(shape_.placed);
  const bool ends = shape_.exit && shape_.exit != setting_.exits.exits.back();
  const int64_t above = ends ? 0 : rows;  // rows of the last layer
  const int64_t best[] = {rows, setting_.spec.head_k}, one[] = {1};
  const size_t per_row = sizeof(int64_t) + 2 * sizeof(float) + (sizeof(float) + sizeof(int32_t)) * best[1];
  EDGEDEC_TRY(lease_.grow(kWithResults * static_cast<int64_t>((shape_.tokens + 2 * shape_.placed) * sizeof(int64_t) + shape_.rows * per_row)));
  const auto integers = [&](const char* name, const std::vector<int64_t>& data, const int64_t* dim) {
    return bind_input(name, data.data(), ort::kInt64, sizeof(int64_t), {dim, 1});
  };
  EDGEDEC_TRY(integers("tokens", tokens_, &tokens));
  EDGEDEC_TRY(integers("positions", positions_, &placed));
  EDGEDEC_TRY(integers("parents", parents_, &placed));
  EDGEDEC_TRY(integers("length", length_, one));
  EDGEDEC_TRY(integers("rows", rows_, &above));
  EDGEDEC_TRY(integers("want_logits", want_, one));
  EDGEDEC_TRY(bind_input("temperature", temperature_.data(), ort::kFloat, sizeof(float), {one, 1}));
  EDGEDEC_TRY(bind_exits());
  EDGEDEC_TRY(bind_caches());
  EDGEDEC_TRY(bind_output("values", values_.data(), ort::kFloat, sizeof(float), {best, 2}));
  EDGEDEC_TRY(bind_output("ids", ids_.data(), ort::kInt32, sizeof(int32_t), {best, 2}));
  EDGEDEC_TRY(bind_output("logsumexp", logsumexp_.data(), ort::kFloat, sizeof(float), {&rows, 1}));
  EDGEDEC_TRY(bind_output("entropy", entropy_.data(), ort::kFloat, sizeof(float), {&rows, 1}));
  return bind_logits(&no_logits_, 0);
}

Status BoundPass::run(const Fed& fed, HeadRows* found, LayerStates* states) {
  fill(&tokens_, fed.tokens);
  fill(&positions_, Span<const int64_t>(fed.placed.positions));
  fill(&parents_, Span<const int>(fed.placed.parents));
  fill(&rows_, fed.rows);
  length_[0] = fed.placed.start;
  temperature_[0] = static_cast<float>(fed.temperature);
  resize(&found->logits, shape_.full ? shape_.rows * static_cast<size_t>(setting_.spec.vocab_size) : 0);
  if (shape_.full) EDGEDEC_TRY(bind_logits(found->logits.data(), shape_.rows));
  if (fed.warm_exit) EDGEDEC_TRY(bind_warm(fed.warm_exit, fed.warm));
  if (fed.keep.data() != keep_.data() || fed.keep.size() != keep_.size()) EDGEDEC_TRY(bind_keep(fed.keep));
  if (!fed.states.empty()) EDGEDEC_TRY(bind_states(states));
  const Runtime& runtime = setting_.runtime;
  EDGEDEC_TRY(runtime.check(runtime.api().RunWithBinding()(setting_.session, nullptr, binding_.get())));
  for (float one : logsumexp_)
    if (!std::isfinite(one))
      return {Code::kBadFile, "the model computes values that are not numbers: its weights are damaged",
              "pull or export the model again"};
  found->rows = shape_.rows;
  found->k = static_cast<size_t>(setting_.spec.head_k);
  found->vocabulary = static_cast<size_t>(setting_.spec.vocab_size);
  found->values = values_;
  found->ids = ids_;
  found->logsumexp = logsumexp_;
  found->entropy = entropy_;
  found->hidden.clear();
  found->temperature = fed.temperature;
  return {};
}

Status Passes::run(const Fed& fed, HeadRows* found, LayerStates* states) {
  const PassShape shape = fed.shape();
  if (shape.full)
    EDGEDEC_TRY(rows_.grow(static_cast<int64_t>(shape.rows * sizeof(float)) * setting_.spec.vocab_size));
  for (const std::unique_ptr<BoundPass>& one : kept_)
    if (one->shape() == shape) return one->run(fed, found, states);
  auto made = std::make_unique<BoundPass>(setting_, shape);
  EDGEDEC_TRY(made->bind());
  EDGEDEC_TRY(made->run(fed, found, states));
  if (shape.placed > kShort) return {};
  if (kept_.size() == kMostKeptPasses) kept_.clear();
  kept_.push_back(std::move(made));
  return {};
}

}  // namespace edgedec::engine
