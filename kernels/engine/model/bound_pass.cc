#include "engine/model/bound_pass.h"

#include <algorithm>
#include <cmath>

namespace edgedec::engine {
namespace {

constexpr int64_t kWithResults = 2;  // head results are handed out as copies of the buffers that a pass keeps
constexpr size_t kShort = 32;  // passes up to this many tokens recur (decoding, verification) and keep their buffers
constexpr size_t kMostKept = 128;

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
      positions_(shape.tokens),
      parents_(shape.tokens),
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
    return bind_input("kv_window", rings->data(), ort::kFloat16, 2, {rings->shape(), 5});
  return {};
}

Status BoundPass::bind() {
  const Runtime& runtime = setting_.runtime;
  OrtIoBinding* binding = nullptr;
  EDGEDEC_TRY(runtime.check(runtime.api().CreateIoBinding()(setting_.session, &binding)));
  binding_ = BindingOwner(binding, {runtime.api()});
  const auto tokens = static_cast<int64_t>(shape_.tokens), rows = static_cast<int64_t>(shape_.rows);
  const int64_t best[] = {rows, setting_.spec.head_k}, one[] = {1};
  const size_t per_row = sizeof(int64_t) + 2 * sizeof(float) + (sizeof(float) + sizeof(int32_t)) * best[1];
  EDGEDEC_TRY(lease_.grow(kWithResults * static_cast<int64_t>(shape_.tokens * 3 * sizeof(int64_t) + shape_.rows * per_row)));
  const auto integers = [&](const char* name, const std::vector<int64_t>& data, const int64_t* dim) {
    return bind_input(name, data.data(), ort::kInt64, sizeof(int64_t), {dim, 1});
  };
  EDGEDEC_TRY(integers("tokens", tokens_, &tokens));
  EDGEDEC_TRY(integers("positions", positions_, &tokens));
  EDGEDEC_TRY(integers("parents", parents_, &tokens));
  EDGEDEC_TRY(integers("length", length_, one));
  EDGEDEC_TRY(integers("rows", rows_, &rows));
  EDGEDEC_TRY(integers("want_logits", want_, one));
  EDGEDEC_TRY(bind_input("temperature", temperature_.data(), ort::kFloat, sizeof(float), {one, 1}));
  EDGEDEC_TRY(bind_caches());
  EDGEDEC_TRY(bind_output("values", values_.data(), ort::kFloat, sizeof(float), {best, 2}));
  EDGEDEC_TRY(bind_output("ids", ids_.data(), ort::kInt32, sizeof(int32_t), {best, 2}));
  EDGEDEC_TRY(bind_output("logsumexp", logsumexp_.data(), ort::kFloat, sizeof(float), {&rows, 1}));
  EDGEDEC_TRY(bind_output("entropy", entropy_.data(), ort::kFloat, sizeof(float), {&rows, 1}));
  return bind_logits(&no_logits_, 0);
}

Status BoundPass::run(const Fed& fed, HeadRows* found) {
  fill(&tokens_, fed.tokens);
  fill(&positions_, Span<const int64_t>(fed.placed.positions));
  fill(&parents_, Span<const int>(fed.placed.parents));
  fill(&rows_, fed.rows);
  length_[0] = fed.placed.start;
  temperature_[0] = static_cast<float>(fed.temperature);
  resize(&found->logits, shape_.full ? shape_.rows * static_cast<size_t>(setting_.spec.vocab_size) : 0);
  if (shape_.full) EDGEDEC_TRY(bind_logits(found->logits.data(), shape_.rows));
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
  found->temperature = fed.temperature;
  return {};
}

Status Passes::run(const Fed& fed, HeadRows* found) {
  const PassShape shape = fed.shape();
  if (shape.full)
    EDGEDEC_TRY(rows_.grow(static_cast<int64_t>(shape.rows * sizeof(float)) * setting_.spec.vocab_size));
  for (const std::unique_ptr<BoundPass>& one : kept_)
    if (one->shape() == shape) return one->run(fed, found);
  auto made = std::make_unique<BoundPass>(setting_, shape);
  EDGEDEC_TRY(made->bind());
  EDGEDEC_TRY(made->run(fed, found));
  if (shape.tokens > kShort) return {};
  if (kept_.size() == kMostKept) kept_.clear();
  kept_.push_back(std::move(made));
  return {};
}

}  // namespace edgedec::engine
