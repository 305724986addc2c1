#include "core/memory/footprint.h"

#include <algorithm>

#include "core/memory/size.h"
#include "core/memory/sizes.h"

namespace edgedec::engine {
namespace {

constexpr double kArena = 1.5;
constexpr int64_t kBlockQueries = 24;  // kPlannedQueries of the kernels: that share a block where the context is full
constexpr int64_t kPairs = 512;  // kPairsAtOnce of the kernels: pairs of a token and an expert that are computed together
constexpr int64_t kTaps = 3;           // layers whose outputs are hidden states
constexpr int64_t kDraftPrompt = 128;  // the longest pass of a draft model
constexpr int64_t kSlackPerSequence = 1'000'000;  // of each but the first: its thread, its text, its part of a pass

// A number of bytes that a formula in floating point found.
Size whole(double bytes) { return bytes < static_cast<double>(Size::kMost) ? static_cast<int64_t>(bytes) : Size::kMost; }

struct Widths {
  Size heads;  // all query heads
  Size qkv;    // query, key and value together
};

// They are taken where they are largest. Recurrent layers have wider ones: their row and a gate, or three such rows.
Widths attention_widths(const ModelSpec& spec) {
  int64_t widest = 0;
  Size kv = 0;
  for (const Keys& keys : keys_of(spec)) {
    widest = std::max(widest, keys.head_dim);
    kv = std::max(kv.count(), (Size(2) * keys.kv_heads * keys.head_dim).count());
  }
  Widths found = {Size(spec.n_heads) * (widest ? widest : spec.head_dim), 0};
  found.qkv = found.heads + kv;
  for (const States& kind : spec.states) {
    found.heads = std::max(found.heads.count(), kind.row);
    found.qkv = std::max(found.qkv.count(), (Size(kind.state ? 2 : 3) * kind.row).count());
  }
  return found;
}

// Bytes of a router's scores, and of the tokens' inputs and outputs of experts.
Size routed_bytes(const ModelSpec& spec, int64_t tokens) {
  if (!spec.experts.count) return 0;
  const int64_t pairs = std::max(tokens, std::min((Size(tokens) * spec.experts.chosen).count(), kPairs));
  const auto scores = static_cast<double>((Size(4) * tokens * spec.experts.count).count());
  return whole(scores + 5.5 * static_cast<double>(pairs) * static_cast<double>(spec.hidden_size + spec.experts.width));
}

// Bytes of the hidden states of a pass, by layer and side by side, and of rows of peeked tokens, which are held twice while
// more are added. 0 for a model opened without exits.
int64_t hidden_bytes(const ModelMemory& model, int64_t longest, int64_t drafted) {
  if (!model.hidden) return 0;
  const Size held = Size(2) * longest * model.hidden;
  return (Size(4) * (held + Size(2) * (1 + drafted) * (model.hidden + model.spec.hidden_size))).count();
}

int64_t model_scratch(const ModelMemory& model, int64_t tokens, int64_t context) {
  return scratch_bytes(model.spec, model.threads, tokens, context, model.exits);
}

// The attention to every slot, of two passes where one is too short for all tokens that are asked, and the choice.
int64_t attention_bytes(const MemoryFacts& facts, const MemoryChoice& choice) {
  if (!facts.observed) return 0;
  const Keys keys = whole_keys(facts.target.spec);
  const Size passes = longest_pass(choice) >= facts.observed ? 1 : 2;
  const Size seen = Size(4) * passes * keys.layers * keys.kv_heads * choice.context;
  return (seen + choice_bytes(facts.target.spec, choice.context)).count();
}

int64_t small_bytes(const ModelMemory& model, const MemoryChoice& choice) {
  const int64_t context = std::min(choice.context, model.spec.context_length), longest = longest_pass(choice);
  const Size cache = Size(cache_bytes(model.spec, context, choice.kv, longest)) + state_bytes(model.spec.states);
  return (cache + model.weights + model_scratch(model, longest, context) + choice.tables).count();
}

}  // namespace

int64_t longest_pass(const MemoryChoice& choice, int64_t sequences) {
  return std::max(choice.prompt_pass, 1 + choice.drafted) + (sequences - 1) * (1 + choice.drafted);
}

int64_t sum_of(const std::vector<MemoryPart>& parts) {
  Size total = 0;
  for (const MemoryPart& part : parts) total = total + part.bytes;
  return total.count();
}

std::vector<MemoryPart> footprint(const MemoryFacts& facts, const MemoryChoice& choice) {
  const ModelSpec& spec = facts.target.spec;
  const int64_t longest = longest_pass(choice), count = facts.sequences;
  std::vector<MemoryPart> parts;
  const auto add = [&parts](const std::string& name, Size bytes) {
    if (bytes.count()) parts.push_back({name, bytes.count()});
  };
  add("process", facts.process);
  add("weights", facts.target.weights);
  add("experts", Size(choice.experts) * facts.target.slot_bytes);
  add("kv_cache", cache_bytes(spec, choice.context, choice.kv, longest, count));
  add("state", Size(count) * state_bytes(spec.states));
  add("scratch", model_scratch(facts.target, longest_pass(choice, count), choice.context));
  add("rows", rows_bytes(facts, choice.drafted));
  add("grammar", facts.grammar);
  add("hidden", hidden_bytes(facts.target, longest, choice.drafted));
  add("attention", attention_bytes(facts, choice));
  add("tables", Size(count) * choice.tables);
  for (const DrafterMemory& one : facts.drafters)
    if (choice.model_drafts) add(one.part, Size(one.weights) + one.rest(one.self, choice, count));
  if (facts.small) add("small", small_bytes(*facts.small, choice));
  add("slack", Size(facts.slack) + Size(count - 1) * kSlackPerSequence + Size(facts.slack_per_token) * count * choice.context);
  return parts;
}

int64_t rows_bytes(const MemoryFacts& facts, int64_t drafted) {
  if (!facts.drawing) return 0;
  const int64_t vocab = std::max(facts.target.spec.vocab_size, facts.small ? facts.small->spec.vocab_size : 0);
  return (Size(facts.sequences) * vocab * (Size(4) * (1 + drafted) + facts.drawing)).count();
}

int64_t cache_bytes(const ModelSpec& spec, int64_t context, KvType kv, int64_t longest, int64_t sequences) {
  const int64_t ring = ring_slots(spec, context, longest, kv);
  Size pages = 0;
  for (const Keys& keys : keys_of(spec)) {
    const Size slots = Size(sequences) * (keys.window ? ring : context);
    pages = pages + Size(2) * keys.kv_heads * keys.layers * divided_up((slots * kv_row_bytes(keys.head_dim, kv)).count(), kPage);
  }
  return (pages * kPage).count();
}

int64_t scratch_bytes(const ModelSpec& spec, int64_t threads, int64_t tokens, int64_t context, int64_t exits) {
  const int64_t hidden = spec.hidden_size, ffn = spec.ffn_size;
  const auto [heads, qkv] = attention_widths(spec);
  const int64_t held = exits ? exits + kTaps : 0;
  const Size tensors = Size(4) * (Size(3 + held) * hidden + ffn + qkv);
  const Size others = Size(4) * (Size(hidden) + qkv + heads);
  const double buffers = 1.4 * static_cast<double>(ffn) + static_cast<double>(others.count());
  const Size scores = Size(4) * kBlockQueries * context * threads;
  const double all = kArena * static_cast<double>(tokens) * (static_cast<double>(tensors.count()) + buffers);
  return (whole(all) + scores + routed_bytes(spec, tokens)).count();
}

int64_t choice_bytes(const ModelSpec& spec, int64_t slots) {
  const Keys keys = whole_keys(spec);
  const Size listed = Size(9) * keys.layers * keys.kv_heads + Size(28) * keys.kv_heads;
  return ((listed + kv_row_bytes(keys.head_dim, KvType::kFp16)) * slots).count();
}

int64_t draft_model_bytes(const ModelMemory& model, const MemoryChoice& choice, int64_t sequences, int64_t beside) {
  const int64_t context = std::min(choice.context, model.spec.context_length);
  const int64_t longest = std::min(kDraftPrompt, choice.context) + (sequences - 1) * beside;
  const Size cache = cache_bytes(model.spec, context, choice.kv, longest_pass(choice), sequences);
  return (cache + Size(sequences) * state_bytes(model.spec.states) + model_scratch(model, longest, context)).count();
}

int64_t draft_model_rest(const void* self, const MemoryChoice& choice, int64_t sequences) {
  return draft_model_bytes(*static_cast<const ModelMemory*>(self), choice, sequences, 0);
}

}  // namespace edgedec::engine
