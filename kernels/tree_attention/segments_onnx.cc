#include <algorithm>

#include "encoder/encoder.h"
#include "ort/ops.h"
#include "tree_attention/segments.h"

namespace edgedec::ort {
namespace {

using namespace tree_attention;

struct SegmentAttention {
  static constexpr const char* kName = "SegmentAttention";
  static constexpr Port kInputs[] = {{kFloat}, {kFloat}, {kInt64}, {kFloat, kOptional}, {kFloat, kOptional}};
  static constexpr Port kOutputs[] = {{kFloat}};
  static constexpr size_t kPrepareRows = 16;

  explicit SegmentAttention(const Info& info)
      : row(find_row(float_row(isa(info)))), before(seen(info, "before")), after(seen(info, "after")) {
    config.heads = size(info, "num_heads");
    config.kv_heads = size(info, "num_kv_heads");
    config.dim = size(info, "head_dim");
    config.scale = info.real("scale");
    config.interleaved = info.integer("interleaved", 0) != 0;
    config.epsilon = info.real("epsilon", 1e-6f);
    config.softcap = info.real("softcap", 0.0f);
    if (const char* wrong = problem(config, Pass{}, 0)) info.fail(wrong);
  }

  // Bounded, so that products of sizes do not wrap around.
  static size_t size(const Info& info, const char* name) {
    const int64_t value = info.integer(name);
    if (value >= 1 && value <= 1 << 16) return static_cast<size_t>(value);
    info.fail(std::string(name) + " is not a possible size");
    return 1;
  }

  // A negative number: all tokens.
  static size_t seen(const Info& info, const char* name) {
    const int64_t value = info.integer(name, -1);
    return value < 0 || value > INT32_MAX ? INT32_MAX : static_cast<size_t>(value);
  }

  const float* head_norm(const Context& c, size_t input) const {
    const auto* weight = c.optional<const float>(input);
    if (weight && c.elements(input) != config.dim) c.fail("a head norm has the wrong length");
    return weight;
  }

  void compute(Context& c) {
    const auto width = static_cast<int64_t>(config.heads * config.dim), dim = static_cast<int64_t>(config.dim);
    const auto tokens = static_cast<size_t>(c.rows(0, static_cast<int64_t>(config.qkv_heads()) * dim));
    if (static_cast<size_t>(c.rows(1, dim)) != tokens) c.fail("rotary does not fit the tokens");
    const auto *qkv = c.data<const float>(0), *rotary = c.data<const float>(1);
    const auto* offsets = c.data<const int64_t>(2);
    const float *q_norm = head_norm(c, 3), *k_norm = head_norm(c, 4);
    auto* out = c.output<float>(0, {static_cast<int64_t>(tokens), width});
    if (!c.ok()) return;
    const Texts texts = {offsets, c.elements(2) - 1, before, after};
    if (!encoder::cuts(offsets, c.elements(2), tokens)) return c.fail("offsets do not cut the tokens into texts");
    if (!tokens) return;
    auto* queries = scratch<float>(Scratch::kQuery, tokens * static_cast<size_t>(width));
    auto* keys = scratch<uint16_t>(Scratch::kTextKeys, 2 * tokens * config.kv_heads * config.dim);
    if (!queries || !keys) return c.lack_memory();
    Cache cache;
    lay_out(config, keys, tokens, config.dim, &cache);
    auto prepare = [&](size_t i) {
      const size_t m0 = i * kPrepareRows, m1 = std::min(tokens, m0 + kPrepareRows);
      row->prepare(config, cache, 0, qkv, rotary, q_norm, k_norm, queries, m0, m1);
    };
    parallel_for(c, (tokens + kPrepareRows - 1) / kPrepareRows, prepare);
    attend_texts(*row, c, config, cache, texts, queries, out);
  }

  const tree_attention::Row* row;
  Config config{};
  size_t before, after;
};

}  // namespace

const KernelOp* segment_attention_op() {
  static const CustomOp<SegmentAttention> op;
  return &op;
}

}  // namespace edgedec::ort
