#include "engine/web/cpu_model.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/isa.h"
#include "core/base/format.h"
#include "head_topk/head_topk.h"
#include "quant_embedding/quant_embedding.h"
#include "quant_linear/linear.h"
#include "engine/web/threads.h"
#include "rms_norm/rms_norm.h"
#include "rotary_table/rotary_table.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostProgram = size_t{8} << 20;
constexpr const char* kPrograms = "cpu";  // the folder with those of drafters
constexpr size_t kAlignedFloats = 64 / sizeof(float);

size_t aligned(size_t floats) { return (floats + kAlignedFloats - 1) / kAlignedFloats * kAlignedFloats; }

// The rows of kernels that run here.
struct Rows16 {
  const char* isa = selected_isa() ? selected_isa() : "scalar";
  const quant_linear::Row& linear = *quant_linear::find_row(isa);
  const gated_mlp::Row& mlp = *gated_mlp::find_row(float_row(isa));
  const experts::Row& experts = *experts::find_row(float_row(isa));
  const head_topk::Row& head = *head_topk::find_row(float_row(isa));
  const rms_norm::Row& norm = *rms_norm::find_row(float_row(isa));
  const rotary_table::Row& rotary = *rotary_table::find_row(float_row(isa));
  const tree_attention::Kernels attention = tree_attention::find_kernels(isa);
  const short_conv::Row& conv = *short_conv::find_row(float_row(isa));
  const gated_delta::Row& delta = *gated_delta::find_row(float_row(isa));
};

const Rows16& kernels() {
  static const Rows16 found;
  return found;
}

}  // namespace

CpuFiles CpuFiles::of_model(const std::string& folder) { return {path_in(folder, "cpu.json"), folder, {}, {}}; }

CpuFiles CpuFiles::of_drafter(const std::string& target, const std::string& folder, const char* kind) {
  const std::string beside = path_in(path_in(target, kPrograms), kind);
  return {beside + ".json", folder, beside + ".i32", target};
}

Status CpuModel::open(const CpuFiles& files, const CpuShape& shape, size_t most, CpuCaches* caches,
                      std::unique_ptr<CpuModel>* made) {
  std::unique_ptr<CpuModel> model(new CpuModel);
  std::string text;
  EDGEDEC_TRY(read_file(files.program, kMostProgram, &text));
  EDGEDEC_TRY(model->weights_.open(path_in(files.folder, "weights.bin")));
  if (shape.hidden) EDGEDEC_TRY(model->shared_.open(path_in(files.target, "weights.bin")));
  const Span<const uint8_t> own = {model->weights_.data(), model->weights_.size()};
  EDGEDEC_TRY(CpuProgram::read(text, own, {model->shared_.data(), model->shared_.size()}, shape, &model->program_));
  EDGEDEC_TRY(model->read_ids(files.ids, shape.scored));
  for (const CpuLayerOut& one : model->program_.outs) model->taps_.push_back(one.layer);
  model->caches_ = caches;
  EDGEDEC_TRY(model->take_memory(most));
  model->thread_ = page_threads();
  *made = std::move(model);
  return {};
}

// Reads the tokens that rows of the head stand for, where there is a list of them.
Status CpuModel::read_ids(const std::string& path, int64_t rows) {
  std::string data;
  const auto bytes = static_cast<size_t>(rows) * sizeof(int32_t);
  if (path.empty() || file_size(path) < 0) return {};
  if (!read_file(path, bytes, &data).ok() || data.size() != bytes)
    return {Code::kBadFile, path + " does not list the rows of the head", "export the model again"};
  ids_.resize(static_cast<size_t>(rows));
  std::memcpy(ids_.data(), data.data(), bytes);
  return {};
}

// Takes memory for passes of at most `most` tokens.
Status CpuModel::take_memory(size_t most) {
  size_t own = 0;
  for (const CpuNode& node : program_.nodes) own = std::max({own, node.attention.heads * node.attention.dim, node.conv.hidden});
  size_t floats = aligned(own * most);
  for (size_t width : program_.buffers) floats += aligned(width * most);
  EDGEDEC_TRY(memory_.allocate(floats * sizeof(float), "passes"));
  scratch_ = reinterpret_cast<float*>(memory_.data());
  float* at = scratch_ + aligned(own * most);
  for (size_t width : program_.buffers) {
    buffers_.push_back(at);
    at += aligned(width * most);
  }
  return {};
}

bool CpuModel::attends_to(size_t kind) const {
  return std::any_of(program_.nodes.begin(), program_.nodes.end(),
                     [kind](const CpuNode& node) { return node.op == CpuOp::kAttention && node.kind == kind; });
}

size_t CpuModel::Run::count(CpuRows over) const {
  if (over == CpuRows::kChosen) return pass.chosen.size();
  if (over == CpuRows::kCommitted) return width ? pass.taps.size() / width : 0;
  return pass.tokens.size() - before(over);
}

CpuModel::Run CpuModel::begun(const CpuPass& pass) const {
  size_t first = pass.tokens.size();
  for (int32_t row : pass.chosen) first = std::min(first, static_cast<size_t>(row));
  const CpuNode& node = program_.nodes.front();
  return {pass, pass.outs ? pass.done : first, node.op == CpuOp::kTaps ? node.width : 0};
}

Status CpuModel::run(const CpuPass& pass, int from, int to) {
  const Run run = begun(pass);
  EDGEDEC_TRY(check_states(run));
  const size_t begin = from ? program_.out_of(from - 1)->node + 1 : 0;
  return run_nodes(run, begin, to ? program_.out_of(to - 1)->node + 1 : program_.nodes.size());
}

Status CpuModel::run_nodes(const Run& run, size_t begin, size_t end) {
  for (size_t at = begin; at < end; ++at) {
    const CpuNode& node = program_.nodes[at];
    if (node.op == CpuOp::kRotary || run.count(node.over)) this->run(node, run);
    take_out(at, run);
  }
  if (!thread_->lacks_memory()) return {};
  thread_ = page_threads();
  return {Code::kNoMemory, "there is no memory for a pass", "close other programs, or use a smaller context"};
}

void CpuModel::enter(int exit, Span<const float> rows, size_t behind) {
  const CpuNode& node = program_.nodes[program_.out_of(exit - 1)->node];
  float* at = buffer(node.out);
  std::memmove(at + rows.size(), at, behind * node.width * sizeof(float));
  std::copy(rows.begin(), rows.end(), at);
}

Status CpuModel::end(const CpuPass& pass, Span<const float> rows) {
  const CpuNode& gather = program_.nodes[program_.ending];
  for (size_t at = 0; at < pass.chosen.size(); ++at)
    std::copy_n(rows.data() + static_cast<size_t>(pass.chosen[at]) * gather.width, gather.width,
                buffer(gather.out) + at * gather.width);
  return run_nodes(begun(pass), program_.ending + 1, program_.nodes.size());
}

// Copies what others read of the value that a node has just written.
void CpuModel::take_out(size_t at, const Run& run) {
  const CpuNode& node = program_.nodes[at];
  if (static_cast<int>(at) == program_.out) {
    out_.clear();
    for (int32_t row : run.pass.chosen) {
      const float* from = buffer(node.out) + static_cast<size_t>(row) * node.width;
      out_.insert(out_.end(), from, from + node.width);
    }
  }
  LayerStates* outs = run.pass.outs;
  for (size_t place = 0; outs && place < outs->layers.size(); ++place)
    if (const CpuLayerOut* out = program_.out_of(outs->layers[place]); out && out->node == at)
      outs->rows[place].assign(buffer(node.out), buffer(node.out) + run.count(node.over) * node.width);
}

// Fails where the states do not lie before the pass.
Status CpuModel::check_states(const Run& run) {
  for (const CpuNode& node : program_.nodes) {
    if (node.op != CpuOp::kShortConv && node.op != CpuOp::kGatedDelta) continue;
    const size_t taps = node.op == CpuOp::kShortConv ? node.conv.taps : node.delta.taps;
    if (const char* wrong = recurrent::problem(sequence(node, run, 0), taps)) return {Code::kUsage, wrong};
  }
  return {};
}

void CpuModel::run(const CpuNode& node, const Run& run) {
  const Rows16& rows = kernels();
  const size_t count = run.count(node.over);
  const int m = static_cast<int>(count);
  const float *in = buffer(node.in), *other = buffer(node.other);
  float* out = buffer(node.out);
  switch (node.op) {
    case CpuOp::kEmbedding: {
      const Span<const int32_t> tokens = run.pass.tokens.from(run.pass.done);
      const std::vector<int64_t> ids(tokens.begin(), tokens.end());
      if (!quant_embedding::embed(node.weights[0], ids.data(), m, node.scale, out)) thread_->lack_memory();
      return;
    }
    case CpuOp::kRotary:
      return rows.rotary.run(run.pass.positions.data(), node.floats[0], out, 0, run.pass.tokens.size(), node.width);
    case CpuOp::kNorm:
      return rows.norm.run(in, node.floats[0], other, out, 0, count * (node.width / node.cols), node.cols, node.epsilon);
    case CpuOp::kLinear:
      return quant_linear::linear(rows.linear, *thread_, node.weights.data(), static_cast<int>(node.weights.size()), in, m,
                                  node.terms, node.floats[0], other, out);
    case CpuOp::kMlp:
      return gated_mlp::gated_mlp(rows.linear, rows.mlp, *thread_, node.weights[0], node.weights[1], node.activation, in, m, out);
    case CpuOp::kProduct: {
      const int width = static_cast<int>(node.width);
      return rows.mlp.activate(node.activation, other, in, node.width, m, width, out, node.width);
    }
    case CpuOp::kExperts: return mix(node, m, out);
    case CpuOp::kAttention: return attend(node, run, out);
    case CpuOp::kShortConv: return convolve(node, run, out);
    case CpuOp::kGatedDelta: return apply_delta(node, run, out);
    case CpuOp::kNearest: return choose_rows(node);
    case CpuOp::kHead: return head(node, run);
    default: return place(node, run, out);
  }
}

// Ops that copy rows, or compute single numbers.
void CpuModel::place(const CpuNode& node, const Run& run, float* out) {
  const size_t count = run.count(node.over);
  const float *in = buffer(node.in), *other = buffer(node.other);
  switch (node.op) {
    case CpuOp::kColumns:
      for (size_t at = 0; at < count; ++at) std::copy_n(in + at * node.cols + node.first, node.width, out + at * node.width);
      return;
    case CpuOp::kScale:
      for (size_t at = 0; at < count * node.width; ++at) out[at] = in[at] * *node.floats[0];
      return;
    case CpuOp::kAdd:
      for (size_t at = 0; at < count * node.width; ++at) out[at] = in[at] + other[at];
      return;
    case CpuOp::kFromFirst:
      std::copy_n(in + (run.first - run.pass.done) * node.width, count * node.width, out);
      return;
    case CpuOp::kTaps: std::copy(run.pass.taps.begin(), run.pass.taps.end(), out); return;
    case CpuOp::kWithStates:
      out = std::copy_n(in, run.count(CpuRows::kCommitted) * node.width, out);
      std::copy(run.pass.states.begin(), run.pass.states.end(), out);
      return;
    case CpuOp::kBeside:
      for (size_t at = 0; at < count; ++at) {
        std::copy_n(in + at * node.cols, node.cols, out + at * node.width);
        std::copy_n(other + at * (node.width - node.cols), node.width - node.cols, out + at * node.width + node.cols);
      }
      return;
    default:  // kGather
      for (size_t at = 0; at < count; ++at)
        std::copy_n(in + (static_cast<size_t>(run.pass.chosen[at]) - run.before(node.from)) * node.width, node.width,
                    out + at * node.width);
  }
}

void CpuModel::mix(const CpuNode& node, int m, float* out) {
  const Rows16& rows = kernels();
  const experts::Inputs inputs = {buffer(node.in), buffer(node.other), node.floats[0], node.floats[1], buffer(node.rotary), m};
  const experts::Weights weights = {node.shapes, node.experts};
  experts::experts({rows.linear, rows.mlp, rows.experts}, *thread_, node.routing, weights, node.activation, inputs, out);
}

void CpuModel::attend(const CpuNode& node, const Run& run, float* out) {
  const tree_attention::Kernels& rows = kernels().attention;
  tree_attention::Cache cache;
  caches_->lay_out(node.kind, node.layer, node.attention, &cache);
  const size_t tokens = run.pass.tokens.size(), first = tokens - run.count(node.over);
  const tree_attention::Pass pass{run.pass.parents.data(), tokens, run.pass.length, first, node.floats[2]};
  rows.floats->prepare(node.attention, cache, pass.length + first, buffer(node.in), buffer(node.rotary) + first * node.attention.dim,
              node.floats[0], node.floats[1], scratch_, 0, pass.computed());
  tree_attention::attend(rows, *thread_, node.attention, cache, {&pass, 1}, scratch_, out,
                         split_for(node.attention, {&pass, 1}), {});
}

recurrent::Sequence CpuModel::sequence(const CpuNode& node, const Run& run, size_t token_row) {
  StateMemory& states = caches_->states;
  const auto row = static_cast<size_t>(states.kinds()[node.kind].row);
  return {run.pass.parents.data(), run.pass.tokens.size(), run.pass.length, run.pass.applied,
          states.trail(node.kind) + node.layer * recurrent::kTrailSlots * row, row, buffer(node.in), token_row};
}

void CpuModel::convolve(const CpuNode& node, const Run& run, float* out) {
  short_conv::Job job = {sequence(node, run, node.conv.hidden), buffer(node.in), scratch_, out};
  job.one.tokens_at = scratch_;
  short_conv::run(kernels().conv, *thread_, node.conv, node.floats[0], &job, 1);
}

void CpuModel::apply_delta(const CpuNode& node, const Run& run, float* out) {
  const gated_delta::Config& config = node.delta;
  float* state = caches_->states.state(node.kind) + node.layer * config.state();
  const gated_delta::Job job = {sequence(node, run, config.token_row()), state, out};
  const gated_delta::Weights weights = {node.floats[0], node.floats[1], node.floats[2], node.floats[3]};
  gated_delta::run(kernels().delta, *thread_, config, weights, &job, 1);
}

// Chooses the rows of the nearest clusters, ascending. Of those that are as near the first ones are taken.
void CpuModel::choose_rows(const CpuNode& node) {
  const size_t clusters = node.width, each = node.first;
  const float* near = buffer(node.in);
  std::vector<size_t> order(clusters);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto nearer = [near](size_t a, size_t b) { return near[a] != near[b] ? near[a] > near[b] : a < b; };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(node.cols), order.end(), nearer);
  order.resize(node.cols);
  std::sort(order.begin(), order.end());
  nearest_.clear();
  for (size_t cluster : order)
    for (size_t row = 0; row < each; ++row) nearest_.push_back(static_cast<int64_t>(cluster * each + row));
}

void CpuModel::head(const CpuNode& node, const Run& run) {
  const CpuPass& pass = run.pass;
  const Span<const int64_t> keep = nearest_.empty() ? pass.keep : Span<const int64_t>(nearest_);
  const size_t rows = pass.chosen.size();
  head_topk::head_topk(kernels().linear, kernels().head, *thread_, node.weights[0], buffer(node.in), static_cast<int>(rows),
                       node.refine, {node.softcap, pass.inverse}, keep.empty() ? nullptr : keep.data(),
                       static_cast<int>(keep.size()), node.k, pass.result);
  if (ids_.empty()) return;
  for (size_t at = 0; at < rows * static_cast<size_t>(node.k); ++at) {
    int32_t& id = pass.result.ids[at];
    if (id >= 0) id = ids_[static_cast<size_t>(id)];
  }
}

}  // namespace edgedec::engine
