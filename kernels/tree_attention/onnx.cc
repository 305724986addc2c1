#include <algorithm>

#include "ort/ops.h"
#include "tree_attention/sequences.h"

namespace edgedec::ort {
namespace {

using tree_attention::Cache;
using tree_attention::Config;
using tree_attention::Looked;
using tree_attention::Pass;
using tree_attention::Passes;
using tree_attention::Sequence;
using tree_attention::Sequences;

struct TreeAttention {
  static constexpr const char* kName = "TreeAttention";
  static constexpr Port kInputs[] = {{kFloat}, {kFloat}, {kInt64}, {kInt64}, {kFloat16},
                                     {kFloat, kOptional}, {kFloat, kOptional}, {kFloat, kOptional},
                                     {kFloat16, kOptional}, {kFloat, kOptional}};
  static constexpr Port kOutputs[] = {{kFloat}, {kFloat16, kOptional}};
  static constexpr size_t kPrepareRows = 16;

  explicit TreeAttention(const Info& info)
      : kernels(tree_attention::find_kernels(isa(info))), layer(info.integer("layer")) {
    config.heads = size(info, "num_heads");
    config.kv_heads = size(info, "num_kv_heads");
    config.dim = size(info, "head_dim");
    config.scale = info.real("scale");
    config.window = static_cast<size_t>(std::max<int64_t>(0, info.integer("window", 0)));
    config.interleaved = info.integer("interleaved", 0) != 0;
    config.epsilon = info.real("epsilon", 1e-6f);
    config.softcap = info.real("softcap", 0.0f);
    config.ring = info.integer("ring", 0) != 0;
    config.value_norm = info.integer("value_norm", 0) != 0;
    config.shared = info.integer("shared", 0) != 0;
  }

  // Bounded, so that products of sizes do not wrap around.
  static size_t size(const Info& info, const char* name) {
    const int64_t value = info.integer(name);
    if (value >= 1 && value <= 1 << 16) return static_cast<size_t>(value);
    info.fail(std::string(name) + " is not a possible size");
    return 1;
  }

  // Keys and values of this layer in a cache or ring [L, 2, Hkv, C, row]. The caller owns the cache, and the op writes
  // into this input.
  Cache cache(const Context& c, size_t* capacity) const {
    const std::vector<int64_t> dims = c.shape(4);
    bool fits = dims.size() == 5 && layer >= 0 && layer < dims[0] && dims[1] == 2 &&
                dims[2] == static_cast<int64_t>(config.kv_heads);
    Cache found{};
    if (fits) {
      const size_t row = static_cast<size_t>(dims[4]), before = static_cast<size_t>(layer) * 2 * config.kv_heads;
      *capacity = static_cast<size_t>(dims[3]);
      auto* all = c.data<uint16_t>(4);
      fits = all && tree_attention::lay_out(config, all + before * *capacity * row, *capacity, row, &found);
    }
    if (!fits)
      c.fail(std::string(config.ring ? "kv_window" : "kv_cache") +
             " must be [layers, 2, kv heads, capacity, row] with rows of head dim, or of int8 and scales");
    return found;
  }

  const float* head_norm(const Context& c, size_t input) const {
    const auto* weight = c.optional<const float>(input);
    if (weight && c.elements(input) != config.dim) c.fail("a head norm has the wrong length");
    return weight;
  }

  // The weights by slot of this layer in the input attention[L, Hkv, slots], which the op writes into. Not requested
  // when the input is left out or has no elements.
  Looked looked(const Context& c, const std::vector<Sequence>& all) const {
    if (!c.has(7) || !c.elements(7)) return {};
    if (config.ring || config.shared || all.size() != 1 || all[0].pass.first) {
      c.fail("attention weights need a single sequence and no ring, own keys, and no warm tokens");
      return {};
    }
    const std::vector<int64_t> dims = c.shape(7), cache_dims = c.shape(4);
    const int64_t layers = cache_dims.empty() ? -1 : cache_dims[0];
    const size_t head = config.kv_heads, slots = all[0].pass.length + all[0].pass.tokens;
    if (dims.size() != 3 || dims[0] != layers || dims[1] != static_cast<int64_t>(head) ||
        static_cast<size_t>(dims[2]) < slots) {
      c.fail("attention must be [layers, kv heads, slots], with a slot for all tokens, or without elements");
      return {};
    }
    const auto stride = static_cast<size_t>(dims[2]);
    auto* weights = c.data<float>(7);
    if (!weights) return {};
    return {weights + static_cast<size_t>(layer) * head * stride, stride};
  }

  void compute(Context& c) {
    const int64_t width = static_cast<int64_t>(config.heads * config.dim);
    const auto tokens = static_cast<size_t>(c.rows(0, qkv_width())), all = c.elements(2);
    if (static_cast<size_t>(c.rows(1, static_cast<int64_t>(config.dim))) != all || all < tokens)
      c.fail("rotary and parents do not fit the tokens");
    Call call{};
    call.cache = cache(c, &call.capacity);
    const auto *lengths = c.data<const int64_t>(3), *parents = c.data<const int64_t>(2);
    const size_t numbers = c.elements(3);
    if (!c.ok()) return;
    Sequences sequences;
    if (const char* wrong = read_sequences(config, lengths, numbers, parents, all, call.capacity, &sequences))
      return c.fail(wrong);
    if (all > tokens && sequences.all.size() != 1) return c.fail("only a single sequence can have warm tokens");
    sequences.all[0].pass.first = all - tokens;
    const auto* sinks = c.optional<const float>(9);
    if (sinks && c.elements(9) != config.heads) return c.fail("sinks must be one for each head");
    for (Sequence& one : sequences.all) one.pass.sinks = sinks;
    call.parts = sequences.parts;
    // The other layer's kv_new is an input so that the runtime runs that layer first, and for the body.
    if (config.shared && (!c.has(8) || c.outputs() > 1)) c.fail("shared keys need the kv_new of the layer that writes them, and have none of their own");
    call.looked = looked(c, sequences.all);
    call.qkv = c.data<const float>(0);
    const auto* rotary = c.data<const float>(1);
    call.q_norm = head_norm(c, 5), call.k_norm = head_norm(c, 6);
    call.out = c.output<float>(0, {static_cast<int64_t>(tokens), width});
    call.queries = scratch<float>(Scratch::kQuery, tokens * static_cast<size_t>(width));
    if (!c.ok()) return;
    if (!call.queries) return c.lack_memory();
    call.rotary = rotary + (all - tokens) * config.dim;
    if (tokens) share_out(c, call, sequences.all);
    // The output kv_new[1, 2, Hkv, 0, row] is empty: the op has written the cache. The op's body in standard ONNX ops
    // cannot write an input, so there kv_new has the rows of all tokens.
    const auto row_size = static_cast<int64_t>(call.cache.row);
    c.optional_output<uint16_t>(1, {1, 2, static_cast<int64_t>(config.kv_heads), 0, row_size});
  }

  // The arguments that all sequences of a pass share.
  struct Call {
    Cache cache;
    size_t capacity, parts;
    const float *qkv, *rotary, *q_norm, *k_norm;
    float *queries, *out;
    Looked looked;
  };

  int64_t qkv_width() const { return static_cast<int64_t>(config.qkv_heads() * config.dim); }

  // Sequences that follow each other and begin with the same slots; or one of its own.
  struct Group {
    const Sequence* first;
    size_t count;
  };

  static std::vector<Group> groups(const std::vector<Sequence>& all) {
    std::vector<Group> found;
    for (size_t i = 0, end; i < all.size(); i = end) {
      for (end = i + 1; end < all.size() && begin_alike(all[end - 1], all[end]);) ++end;
      found.push_back({&all[i], end - i});
    }
    return found;
  }

  // A group with much work gets all threads. Each of the others gets one thread, since splitting it would take longer than
  // computing it.
  void share_out(Context& c, const Call& call, const std::vector<Sequence>& all) const {
    constexpr size_t kWorthAllThreads = 1 << 20;
    if (all.size() == 1) return compute_group(c, call, {all.data(), 1});
    const std::vector<Group> found = groups(all);
    std::vector<Group> shorter;
    for (const Group& one : found)
      if (work(one) >= kWorthAllThreads)
        compute_group(c, call, one);
      else
        shorter.push_back(one);
    auto body = [&](size_t i) {
      Serial serial;
      compute_group(serial, call, shorter[i]);
      if (serial.lacks_memory()) c.lack_memory();
    };
    if (!shorter.empty()) parallel_for(c, shorter.size(), body);
  }

  // Multiplications for the scores; the values need as many.
  size_t work(const Group& group) const {
    size_t sum = 0;
    for (size_t i = 0; i < group.count; ++i) {
      const Pass& pass = group.first[i].pass;
      sum += pass.computed() * (pass.length + pass.tokens) * config.heads * config.dim;
    }
    return sum;
  }

  void compute_group(Parallel& threads, const Call& call, const Group& group) const {
    const size_t width = config.heads * config.dim, first = group.first->first;
    std::vector<Pass> several;
    for (size_t i = 0; i < group.count; ++i) {
      const Sequence& one = group.first[i];
      prepare(threads, call, part_of(call.cache, call.capacity, call.parts, one.part), one, call.queries + one.first * width);
      if (group.count > 1) several.push_back(one.pass);
    }
    const Cache kv = part_of(call.cache, call.capacity, call.parts, 0);
    const Passes passes{group.count > 1 ? several.data() : &group.first->pass, group.count};
    attend(threads, kv, group, passes, call.queries + first * width, call.out + first * width, call.looked);
  }

  void prepare(Parallel& threads, const Call& call, const Cache& kv, const Sequence& one, float* queries) const {
    const float* qkv = call.qkv + one.first * static_cast<size_t>(qkv_width());
    const float* rotary = call.rotary + one.first * config.dim;
    auto body = [&](size_t i) {
      const size_t m0 = i * kPrepareRows, m1 = std::min(one.pass.computed(), m0 + kPrepareRows);
      kernels.floats->prepare(config, kv, one.pass.length + one.pass.first, qkv, rotary, call.q_norm, call.k_norm, queries, m0, m1);
    };
    parallel_for(threads, (one.pass.computed() + kPrepareRows - 1) / kPrepareRows, body);
  }

  void attend(Parallel& all, const Cache& kv, const Group& group, const Passes& passes, const float* queries, float* out,
              const Looked& looked) const {
    // One thread finishes a short context before a second one wakes.
    constexpr size_t kWorthSharing = 1 << 15;
    Serial serial;
    Parallel& threads = work(group) < kWorthSharing ? static_cast<Parallel&>(serial) : all;
    tree_attention::attend(kernels, threads, config, kv, passes, queries, out, tree_attention::split_for(config, passes), looked);
    if (threads.lacks_memory()) all.lack_memory();
  }

  tree_attention::Kernels kernels;
  Config config;
  int64_t layer;
};

}  // namespace

const KernelOp* tree_attention_op() {
  static const CustomOp<TreeAttention> op;
  return &op;
}

}  // namespace edgedec::ort
