#include "engine/web/cpu_model.h"

#include <algorithm>
#include <cstring>

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
constexpr size_t kAlignedFloats = 64 / sizeof(float);

size_t aligned(size_t floats) { return (floats + kAlignedFloats - 1) / kAlignedFloats * kAlignedFloats; }

// The rows of kernels that run here.
struct Rows16 {
  const char* isa = selected_isa() ? selected_isa() : "scalar";
  const quant_linear::Row& linear = *quant_linear::find_row(isa);
  const gated_mlp::Row& mlp = *gated_mlp::find_row(float_row(isa));
  const head_topk::Row& head = *head_topk::find_row(float_row(isa));
  const rms_norm::Row& norm = *rms_norm::find_row(float_row(isa));
  const rotary_table::Row& rotary = *rotary_table::find_row(float_row(isa));
  const tree_attention::Row& attention = *tree_attention::find_row(float_row(isa));
  const short_conv::Row& conv = *short_conv::find_row(float_row(isa));
  const gated_delta::Row& delta = *gated_delta::find_row(float_row(isa));
};

const Rows16& kernels() {
  static const Rows16 found;
  return found;
}

}  // namespace

Status CpuModel::open(const std::string& folder, const ModelSpec& spec, int64_t capacity, int64_t max_pass,
                      std::unique_ptr<CpuModel>* made) {
  std::unique_ptr<CpuModel> model(new CpuModel);
  std::string text;
  EDGEDEC_TRY(read_file(path_in(folder, kCpuProgram), kMostProgram, &text));
  EDGEDEC_TRY(model->weights_.open(path_in(folder, "weights.bin")));
  EDGEDEC_TRY(CpuProgram::read(text, {model->weights_.data(), model->weights_.size()}, spec, &model->program_));
  model->capacity_ = static_cast<size_t>(capacity);
  EDGEDEC_TRY(model->take_memory(spec, static_cast<size_t>(max_pass)));
  model->thread_ = page_threads();
  *made = std::move(model);
  return {};
}

// Takes memory for the caches, and for passes of at most `most` tokens.
Status CpuModel::take_memory(const ModelSpec& spec, size_t most) {
  size_t slot = 0;
  for (const Keys& kind : keys_of(spec)) {
    keys_.push_back({static_cast<size_t>(kind.layers), static_cast<size_t>(kind.kv_heads), static_cast<size_t>(kind.head_dim), slot});
    slot += keys_.back().numbers();
  }
  if (slot > SIZE_MAX / 4 / sizeof(uint16_t) / capacity_)
    return {Code::kNoMemory, "a context of " + decimal(uint64_t{capacity_}) + " tokens is more than a program can address",
            "use a smaller context"};
  if (slot) EDGEDEC_TRY(kv_.allocate(slot * sizeof(uint16_t) * capacity_, "the KV cache"));
  if (!spec.states.empty()) EDGEDEC_TRY(states_.allocate(spec.states));
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

size_t CpuModel::Run::count(CpuRows over) const {
  if (over == CpuRows::kAll) return pass.tokens;
  return over == CpuRows::kChosen ? pass.rows : pass.tokens - first;
}

Status CpuModel::run(const edgedec_web_pass& pass) {
  move(pass);
  Run run{pass, {pass.positions, pass.positions + pass.tokens}, {pass.parents, pass.parents + pass.tokens}, pass.tokens};
  for (size_t row = 0; row < pass.rows; ++row) run.first = std::min(run.first, static_cast<size_t>(pass.chosen[row]));
  EDGEDEC_TRY(follow(run));
  for (const CpuNode& node : program_.nodes)
    if (run.count(node.over)) this->run(node, run);
  if (pass.keep) states_.keep(pass.keep);
  if (!thread_->lacks_memory()) return {};
  thread_ = page_threads();
  return {Code::kNoMemory, "there is no memory for a pass", "close other programs, or use a smaller context"};
}

// Copies the slots that settling the pass before has moved.
void CpuModel::move(const edgedec_web_pass& pass) {
  if (!pass.moves) return;
  for (const KeysPlace& keys : keys_) {
    moved_.resize(pass.moves * keys.dim);
    for (size_t part = 0; part < keys.layers * 2 * keys.heads; ++part) {
      uint16_t* rows = layer(keys, 0) + part * capacity_ * keys.dim;
      for (size_t at = 0; at < pass.moves; ++at)
        std::copy_n(rows + pass.from[at] * keys.dim, keys.dim, moved_.data() + at * keys.dim);
      for (size_t at = 0; at < pass.moves; ++at)
        std::copy_n(moved_.data() + at * keys.dim, keys.dim, rows + pass.to[at] * keys.dim);
    }
  }
  states_.move({{pass.from, pass.from + pass.moves}, {pass.to, pass.to + pass.moves}});
}

// Brings the states to the tokens before the pass.
Status CpuModel::follow(const Run& run) {
  if (run.pass.restore == EDGEDEC_WEB_RESTORE) states_.restore(run.pass.applied);
  if (run.pass.restore == EDGEDEC_WEB_CLEAR) states_.clear();
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
      const std::vector<int64_t> ids(run.pass.token_ids, run.pass.token_ids + count);
      if (!quant_embedding::embed(node.weights[0], ids.data(), m, node.scale, out)) thread_->lack_memory();
      return;
    }
    case CpuOp::kRotary: return rows.rotary.run(run.positions.data(), node.floats[0], out, 0, count, node.width);
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
    case CpuOp::kAttention: return attend(node, run, out);
    case CpuOp::kShortConv: return convolve(node, run, out);
    case CpuOp::kGatedDelta: return apply_delta(node, run, out);
    case CpuOp::kColumns:
      for (size_t at = 0; at < count; ++at) std::copy_n(in + at * node.cols + node.first, node.width, out + at * node.width);
      return;
    case CpuOp::kScale:
      for (size_t at = 0; at < count * node.width; ++at) out[at] = in[at] * *node.floats[0];
      return;
    case CpuOp::kFromFirst: return static_cast<void>(std::copy_n(in + run.first * node.width, count * node.width, out));
    case CpuOp::kGather:
      for (size_t at = 0; at < count; ++at) {
        const size_t row = static_cast<size_t>(run.pass.chosen[at]) - (node.from == CpuRows::kFromFirst ? run.first : 0);
        std::copy_n(in + row * node.width, node.width, out + at * node.width);
      }
      return;
    case CpuOp::kHead: return head(node, run);
  }
}

void CpuModel::attend(const CpuNode& node, const Run& run, float* out) {
  const tree_attention::Row& row = kernels().attention;
  const KeysPlace& keys = keys_[node.kind];
  tree_attention::Cache cache;
  tree_attention::lay_out(node.attention, layer(keys, node.layer), capacity_, keys.dim, &cache);
  const size_t first = run.pass.tokens - run.count(node.over);
  const tree_attention::Pass pass{run.parents.data(), run.pass.tokens, run.pass.length, first};
  row.prepare(node.attention, cache, pass.length + first, buffer(node.in), buffer(node.rotary) + first * keys.dim,
              node.floats[0], node.floats[1], scratch_, 0, pass.computed());
  tree_attention::attend(row, *thread_, node.attention, cache, pass, scratch_, out, split_for(node.attention, pass), {});
}

recurrent::Sequence CpuModel::sequence(const CpuNode& node, const Run& run, size_t token_row) {
  const auto row = static_cast<size_t>(states_.kinds()[node.kind].row);
  return {run.parents.data(), run.pass.tokens, run.pass.length, run.pass.applied,
          states_.trail(node.kind) + node.layer * recurrent::kTrailSlots * row, row, buffer(node.in), token_row};
}

void CpuModel::convolve(const CpuNode& node, const Run& run, float* out) {
  short_conv::Job job = {sequence(node, run, node.conv.hidden), buffer(node.in), scratch_, out};
  job.one.tokens_at = scratch_;
  short_conv::run(kernels().conv, *thread_, node.conv, node.floats[0], &job, 1);
}

void CpuModel::apply_delta(const CpuNode& node, const Run& run, float* out) {
  const gated_delta::Config& config = node.delta;
  const gated_delta::Job job = {sequence(node, run, config.token_row()), states_.state(node.kind) + node.layer * config.state(), out};
  const gated_delta::Weights weights = {node.floats[0], node.floats[1], node.floats[2], node.floats[3]};
  gated_delta::run(kernels().delta, *thread_, config, weights, &job, 1);
}

void CpuModel::head(const CpuNode& node, const Run& run) {
  const edgedec_web_pass& pass = run.pass;
  const head_topk::Result result = {pass.values, pass.ids, pass.logsumexp, pass.entropy, pass.logits};
  head_topk::head_topk(kernels().linear, kernels().head, *thread_, node.weights[0], buffer(node.in), static_cast<int>(pass.rows),
                       node.refine, {node.softcap, pass.inverse}, nullptr, 0, node.k, result);
}

}  // namespace edgedec::engine
