#include <algorithm>

#include "ort/ops.h"
#include "tree_attention/tree_attention.h"

namespace edgedec::ort {
namespace {

using tree_attention::Cache;
using tree_attention::Config;
using tree_attention::Pass;

struct TreeAttention {
  static constexpr const char* kName = "TreeAttention";
  static constexpr Port kInputs[] = {{kFloat}, {kFloat}, {kInt64}, {kInt64}, {kFloat16},
                                     {kFloat, kOptional}, {kFloat, kOptional}};
  static constexpr Port kOutputs[] = {{kFloat}, {kFloat16, kOptional}};
  static constexpr size_t kPrepareRows = 16;

  explicit TreeAttention(const Info& info)
      : row(tree_attention::find_row(float_row(isa()))), layer(info.integer("layer")) {
    config.heads = size(info, "num_heads");
    config.kv_heads = size(info, "num_kv_heads");
    config.dim = size(info, "head_dim");
    config.scale = info.real("scale");
    config.window = static_cast<size_t>(std::max<int64_t>(0, info.integer("window", 0)));
    config.interleaved = info.integer("interleaved", 0) != 0;
    config.epsilon = info.real("epsilon", 1e-6f);
    config.softcap = info.real("softcap", 0.0f);
    config.ring = info.integer("ring", 0) != 0;
  }

  // Within bounds that keep products of sizes from wrapping around.
  static size_t size(const Info& info, const char* name) {
    const int64_t value = info.integer(name);
    if (value < 1 || value > 1 << 16) throw Error(std::string(name) + " is not a possible size");
    return static_cast<size_t>(value);
  }

  // Keys and values of this layer in a cache or ring [L, 2, Hkv, C, row]; they are written through the input, which is the
  // whole point of a cache that the caller owns.
  Cache cache(const Context& c, size_t* capacity) const {
    const std::vector<int64_t> dims = c.shape(4);
    bool fits = dims.size() == 5 && layer >= 0 && layer < dims[0] && dims[1] == 2 &&
                dims[2] == static_cast<int64_t>(config.kv_heads);
    Cache found{};
    if (fits) {
      const size_t row = static_cast<size_t>(dims[4]), before = static_cast<size_t>(layer) * 2 * config.kv_heads;
      *capacity = static_cast<size_t>(dims[3]);
      fits = tree_attention::lay_out(config, c.data<uint16_t>(4) + before * *capacity * row, *capacity, row, &found);
    }
    if (!fits)
      throw Error(std::string(config.ring ? "kv_window" : "kv_cache") +
                  " must be [layers, 2, kv heads, capacity, row] with rows of head dim, or of int8 and scales");
    return found;
  }

  const float* head_norm(const Context& c, size_t input) const {
    const auto* weight = c.optional<const float>(input);
    if (weight && c.elements(input) != config.dim) throw Error("a head norm has the wrong length");
    return weight;
  }

  void compute(Context& c) {
    const int64_t width = static_cast<int64_t>(config.heads * config.dim);
    const auto tokens = static_cast<size_t>(c.rows(0, width + 2 * static_cast<int64_t>(config.kv_heads * config.dim)));
    if (static_cast<size_t>(c.rows(1, static_cast<int64_t>(config.dim))) != tokens || c.elements(2) != tokens ||
        c.elements(3) != 1)
      throw Error("rotary, parents and length do not fit the tokens");
    const int64_t length = *c.data<const int64_t>(3);
    if (length < 0) throw Error("negative length");
    size_t capacity = 0;
    const Cache kv = cache(c, &capacity);
    const Pass pass{c.data<const int64_t>(2), tokens, static_cast<size_t>(length)};
    if (const char* wrong = tree_attention::problem(config, pass, capacity)) throw Error(wrong);
    auto* out = c.output<float>(0, {static_cast<int64_t>(tokens), width});
    float* queries = scratch<float>(Scratch::kQuery, tokens * static_cast<size_t>(width));
    prepare(c, kv, pass, queries);
    attend(c, kv, pass, queries, out);
    // The output kv_new[1, 2, Hkv, 0, row]: nothing is left for the caller to put into the cache. The op's body in
    // standard ONNX ops, which cannot write its input, hands out the rows of all tokens there.
    c.optional_output<uint16_t>(1, {1, 2, static_cast<int64_t>(config.kv_heads), 0, static_cast<int64_t>(kv.row)});
  }

  void prepare(Context& c, const Cache& kv, const Pass& pass, float* queries) const {
    const auto *qkv = c.data<const float>(0), *rotary = c.data<const float>(1);
    const float *q_norm = head_norm(c, 5), *k_norm = head_norm(c, 6);
    auto body = [&](size_t i) {
      const size_t m0 = i * kPrepareRows, m1 = std::min(pass.tokens, m0 + kPrepareRows);
      row->prepare(config, kv, pass.length, qkv, rotary, q_norm, k_norm, queries, m0, m1);
    };
    parallel_for(c, (pass.tokens + kPrepareRows - 1) / kPrepareRows, body);
  }

  void attend(Context& c, const Cache& kv, const Pass& pass, const float* queries, float* out) const {
    // A short context is done sooner than a second thread wakes.
    constexpr size_t kWorthSharing = 1 << 15;
    const size_t work = pass.tokens * (pass.length + pass.tokens) * config.heads * config.dim;
    Serial serial;
    Parallel& threads = work < kWorthSharing ? static_cast<Parallel&>(serial) : c;
    tree_attention::attend(*row, threads, config, kv, pass, queries, out, tree_attention::split_for(config, pass));
  }

  const tree_attention::Row* row;
  Config config;
  int64_t layer;
};

}  // namespace

const OrtCustomOp* tree_attention_op() {
  static const CustomOp<TreeAttention> op;
  return &op;
}

}  // namespace edgedec::ort
