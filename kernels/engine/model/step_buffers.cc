#include "engine/model/step_buffers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/bundle/manifest.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostBindings = 64;

}  // namespace

StepBuffers::StepBuffers(const Runtime& runtime, OrtSession* session, Ledger* ledger)
    : runtime_(runtime), session_(session), scratch_(ledger, "scratch"), buffers_(ledger, "buffers") {}

void* StepBuffers::add(const char* name, bool input, int type, size_t width, Count what, int64_t most, int64_t columns) {
  const auto bytes = static_cast<size_t>(most * std::max<int64_t>(columns, 1)) * width;
  memory_.emplace_back((bytes + sizeof(int64_t) - 1) / sizeof(int64_t));
  std::vector<int64_t> dims = {most};
  if (columns) dims.push_back(columns);
  all_.push_back({name, input, type, width, what, std::move(dims), memory_.back().data(), false});
  bytes_ += static_cast<int64_t>(input ? bytes : 2 * bytes);  // results are copied
  return memory_.back().data();
}

void StepBuffers::share(const char* name, const void* data, int type, size_t width, std::vector<int64_t> dims) {
  all_.push_back({name, true, type, width, kOne, std::move(dims), data, true});
}

Status StepBuffers::lease(int64_t scratch) {
  EDGEDEC_TRY(scratch_.grow(scratch));
  return buffers_.grow(bytes_);
}

Status StepBuffers::run(const Counts& counts) {
  const Span<const int64_t> key(counts, kCounts);
  const auto same = [key](const Bound& one) { return std::equal(key.begin(), key.end(), one.counts.begin()); };
  auto found = std::find_if(kept_.begin(), kept_.end(), same);
  if (found == kept_.end()) {
    if (kept_.size() == kMostBindings) kept_.clear();
    OrtIoBinding* made = nullptr;
    EDGEDEC_TRY(runtime_.check(runtime_.api().CreateIoBinding()(session_, &made)));
    BindingOwner owner(made, {runtime_.api()});
    EDGEDEC_TRY(bind(counts, made));
    kept_.push_back({{key.begin(), key.end()}, std::move(owner)});
    found = kept_.end() - 1;
  }
  return runtime_.check(runtime_.api().RunWithBinding()(session_, nullptr, found->binding.get()));
}

Status StepBuffers::bind(const Counts& counts, OrtIoBinding* binding) const {
  static int64_t nothing = 0;  // an address for tensors without elements
  for (const Buffer& one : all_) {
    std::vector<int64_t> dims = one.dims;
    if (!one.shared) dims[0] = counts[one.what];
    size_t bytes = one.width;
    for (int64_t dim : dims) bytes *= static_cast<size_t>(dim);
    OrtValue* made = nullptr;
    EDGEDEC_TRY(runtime_.check(runtime_.api().CreateTensorWithDataAsOrtValue()(
        runtime_.memory(), bytes ? const_cast<void*>(one.data) : &nothing, bytes, dims.data(), dims.size(), one.type, &made)));
    const ValueOwner value(made, {runtime_.api()});
    EDGEDEC_TRY(runtime_.check(one.input ? runtime_.api().BindInput()(binding, one.name, made)
                                         : runtime_.api().BindOutput()(binding, one.name, made)));
  }
  return {};
}

HeadOutputs::HeadOutputs(StepBuffers* buffers, int64_t rows, int64_t k, StepBuffers::Count states, int64_t most_states,
                         int64_t hidden)
    : k_(k),
      hidden_(hidden),
      values_(buffers->output<float>("values", StepBuffers::kRows, rows, k)),
      logsumexp_(buffers->output<float>("logsumexp", StepBuffers::kRows, rows)),
      entropy_(buffers->output<float>("entropy", StepBuffers::kRows, rows)),
      out_(buffers->output<float>("out", states, most_states, hidden)),
      ids_(buffers->output<int32_t>("ids", StepBuffers::kRows, rows, k)) {}

Status HeadOutputs::take(Span<const int> rows, int64_t ids, bool padded, const char* what, HeadPass* found) const {
  const size_t count = rows.size(), entries = count * static_cast<size_t>(k_);
  for (size_t row = 0; row < count; ++row)
    if (!std::isfinite(logsumexp_[row]))
      return {Code::kBadFile, std::string(what) + " computes values that are not numbers", kMakeAgain};
  for (size_t at = 0; at < entries; ++at)
    if (ids_[at] < -static_cast<int>(padded) || ids_[at] >= ids)
      return {Code::kBadFile, std::string(what) + " predicts ids outside the vocabulary", kMakeAgain};
  found->rows.rows = count;
  found->rows.k = static_cast<size_t>(k_);
  found->rows.values.assign(values_, values_ + entries);
  found->rows.ids.assign(ids_, ids_ + entries);
  found->rows.logsumexp.assign(logsumexp_, logsumexp_ + count);
  found->rows.entropy.assign(entropy_, entropy_ + count);
  found->states.clear();
  for (int row : rows) found->states.insert(found->states.end(), out_ + row * hidden_, out_ + (row + 1) * hidden_);
  return {};
}

Status MappedTables::open(const std::string& target, Span<const TableFacts> tables, const char* what) {
  EDGEDEC_TRY(weights_.open(path_in(target, kWeightsFile)));
  for (const TableFacts& table : tables)
    if (table.offset + table.bytes() > static_cast<int64_t>(weights_.size()))
      return {Code::kBadFile, std::string(what) + " expects a table outside the weights of its target", kMakeAgain};
  return {};
}

void MappedTables::share(const char* name, const TableFacts& table, StepBuffers* buffers) const {
  buffers->share(name, weights_.data() + table.offset, ort::kUint8, 1, {table.tiles, table.tile_bytes});
}

Status DrafterPorts::read(const Runtime& runtime, const OrtSession* session) {
  EDGEDEC_TRY(in.read_inputs(runtime, session));
  return out.read_outputs(runtime, session);
}

const Ports::Port* DrafterPorts::find(const char* name) const {
  const Ports::Port* found = in.find(name);
  return found ? found : out.find(name);
}

bool DrafterPorts::are_vectors(std::initializer_list<const char*> names) const {
  return std::all_of(names.begin(), names.end(), [this](const char* name) {
    const Ports::Port* port = find(name);
    return port && port->dims.size() == 1;
  });
}

bool DrafterPorts::are_rows(std::initializer_list<const char*> names, int64_t columns) const {
  return std::all_of(names.begin(), names.end(), [&](const char* name) { return has_columns(find(name), columns); });
}

bool DrafterPorts::has_table(const char* name, const TableFacts& table) const {
  const Ports::Port* port = in.find(name);
  return port && port->dims == std::vector<int64_t>{table.tiles, table.tile_bytes};
}

}  // namespace edgedec::engine
