#include "engine/web/cpu_model.h"

#include <algorithm>
#include <cstring>

#include "common/isa.h"
#include "core/base/format.h"
#include "head_topk/head_topk.h"
#include "quant_embedding/quant_embedding.h"
#include "quant_linear/linear.h"
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
  model->layers_ = static_cast<size_t>(spec.n_layers);
  model->heads_ = static_cast<size_t>(spec.n_kv_heads);
  model->dim_ = static_cast<size_t>(spec.head_dim);
  model->capacity_ = static_cast<size_t>(capacity);
  const size_t slot = 2 * sizeof(uint16_t) * model->layers_ * model->heads_ * model->dim_;
  if (slot > SIZE_MAX / 4 / model->capacity_)
    return {Code::kNoMemory, "a context of " + decimal(capacity) + " tokens is more than a program can address",
            "use a smaller context"};
  EDGEDEC_TRY(model->kv_.allocate(slot * model->capacity_, "the KV cache"));
  const auto most = static_cast<size_t>(max_pass);
  size_t floats = aligned(static_cast<size_t>(spec.n_heads * spec.head_dim) * most);
  for (size_t width : model->program_.buffers) floats += aligned(width * most);
  EDGEDEC_TRY(model->memory_.allocate(floats * sizeof(float), "passes"));
  auto* at = reinterpret_cast<float*>(model->memory_.data());
  model->queries_ = at;
  at += aligned(static_cast<size_t>(spec.n_heads * spec.head_dim) * most);
  for (size_t width : model->program_.buffers) {
    model->buffers_.push_back(at);
    at += aligned(width * most);
  }
  model->thread_ = std::make_unique<Serial>();
  *made = std::move(model);
  return {};
}

Status CpuModel::run(const edgedec_web_pass& pass) {
  move(pass);
  Run run{pass, {pass.positions, pass.positions + pass.tokens}, {pass.parents, pass.parents + pass.tokens}};
  for (const CpuNode& node : program_.nodes)
    if (!node.by_row || pass.rows) this->run(node, run);
  if (!thread_->lacks_memory()) return {};
  thread_ = std::make_unique<Serial>();
  return {Code::kNoMemory, "there is no memory for a pass", "close other programs, or use a smaller context"};
}

// Copies the slots that settling the pass before has moved.
void CpuModel::move(const edgedec_web_pass& pass) {
  if (!pass.moves) return;
  moved_.resize(pass.moves * dim_);
  for (size_t part = 0; part < layers_ * 2 * heads_; ++part) {
    uint16_t* rows = layer(0) + part * capacity_ * dim_;
    for (size_t at = 0; at < pass.moves; ++at) std::copy_n(rows + pass.from[at] * dim_, dim_, moved_.data() + at * dim_);
    for (size_t at = 0; at < pass.moves; ++at) std::copy_n(moved_.data() + at * dim_, dim_, rows + pass.to[at] * dim_);
  }
}

void CpuModel::run(const CpuNode& node, const Run& run) {
  const Rows16& rows = kernels();
  const auto count = static_cast<size_t>(node.by_row ? run.pass.rows : run.pass.tokens);
  const int m = static_cast<int>(count);
  const float *in = buffer(node.in), *residual = buffer(node.residual);
  float* out = buffer(node.out);
  switch (node.op) {
    case CpuOp::kEmbedding: {
      const std::vector<int64_t> ids(run.pass.token_ids, run.pass.token_ids + count);
      if (!quant_embedding::embed(node.weights[0], ids.data(), m, node.scale, out)) thread_->lack_memory();
      return;
    }
    case CpuOp::kRotary: return rows.rotary.run(run.positions.data(), node.floats[0], out, 0, count, node.width);
    case CpuOp::kNorm: return rows.norm.run(in, node.floats[0], residual, out, 0, count, node.width, node.epsilon);
    case CpuOp::kLinear:
      return quant_linear::linear(rows.linear, *thread_, node.weights.data(), static_cast<int>(node.weights.size()), in, m,
                                  node.terms, node.floats[0], residual, out);
    case CpuOp::kMlp:
      return gated_mlp::gated_mlp(rows.linear, rows.mlp, *thread_, node.weights[0], node.weights[1], node.activation, in, m, out);
    case CpuOp::kAttention: return attend(node, run, out);
    case CpuOp::kGather:
      for (size_t at = 0; at < count; ++at)
        std::copy_n(in + static_cast<size_t>(run.pass.chosen[at]) * node.width, node.width, out + at * node.width);
      return;
    case CpuOp::kHead: return head(node, run);
  }
}

void CpuModel::attend(const CpuNode& node, const Run& run, float* out) {
  const tree_attention::Row& row = kernels().attention;
  tree_attention::Cache cache;
  tree_attention::lay_out(node.attention, layer(node.layer), capacity_, dim_, &cache);
  const tree_attention::Pass pass{run.parents.data(), run.pass.tokens, run.pass.length, 0};
  row.prepare(node.attention, cache, pass.length, buffer(node.in), buffer(node.rotary), node.floats[0], node.floats[1], queries_,
              0, pass.tokens);
  tree_attention::attend(row, *thread_, node.attention, cache, pass, queries_, out, split_for(node.attention, pass), {});
}

void CpuModel::head(const CpuNode& node, const Run& run) {
  const edgedec_web_pass& pass = run.pass;
  const head_topk::Result result = {pass.values, pass.ids, pass.logsumexp, pass.entropy, pass.logits};
  head_topk::head_topk(kernels().linear, kernels().head, *thread_, node.weights[0], buffer(node.in), static_cast<int>(pass.rows),
                       node.refine, {node.softcap, pass.inverse}, nullptr, 0, node.k, result);
}

}  // namespace edgedec::engine
