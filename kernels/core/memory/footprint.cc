#include "core/memory/footprint.h"

#include <algorithm>

#include "core/memory/size.h"
#include "core/memory/sizes.h"

namespace edgedec::engine {
namespace {

constexpr double kArena = 1.5;
constexpr int64_t kBlockQueries = 24;  // kMostQueries of the kernels: vectors that share a block of attention
constexpr int64_t kTaps = 3;           // layers whose outputs are hidden states
constexpr int64_t kDraftPrompt = 128;  // the longest pass of a draft model

// A number of bytes that a formula in floating point found.
Size whole(double bytes) { return bytes < static_cast<double>(Size::kMost) ? static_cast<int64_t>(bytes) : Size::kMost; }

}  // namespace

int64_t longest_pass(const MemoryChoice& choice) { return std::max(choice.prompt_pass, 1 + choice.drafted); }

int64_t sum_of(const std::vector<MemoryPart>& parts) {
  Size total = 0;
  for (const MemoryPart& part : parts) total = total + part.bytes;
  return total.count();
}

std::vector<MemoryPart> footprint(const MemoryFacts& facts, const MemoryChoice& choice) {
  const ModelSpec& spec = facts.target.spec;
  const int64_t longest = longest_pass(choice);
  std::vector<MemoryPart> parts;
  const auto add = [&parts](const std::string& name, int64_t bytes) {
    if (bytes) parts.push_back({name, bytes});
  };
  add("process", facts.process);
  add("weights", facts.target.weights);
  add("kv_cache", cache_bytes(spec, choice.context, choice.kv, longest));
  add("scratch", scratch_bytes(spec, facts.target.threads, longest, choice.context, facts.target.exits));
  add("rows", rows_bytes(facts, choice.drafted));
  add("hidden", hidden_bytes(facts.target, longest, choice.drafted));
  add("tables", choice.tables);
  for (const DrafterMemory& one : facts.drafters)
    if (choice.model_drafts) add(one.part, (Size(one.weights) + one.rest(one.self, choice)).count());
  add("slack", (Size(facts.slack) + Size(facts.slack_per_token) * choice.context).count());
  return parts;
}

int64_t rows_bytes(const MemoryFacts& facts, int64_t drafted) {
  if (!facts.drawing) return 0;
  return (Size(facts.target.spec.vocab_size) * (Size(4) * (1 + drafted) + facts.drawing)).count();
}

int64_t hidden_bytes(const ModelMemory& model, int64_t longest, int64_t drafted) {
  if (!model.hidden) return 0;
  const Size held = Size(2) * longest * model.hidden;
  return (Size(4) * (held + Size(2) * (1 + drafted) * (model.hidden + model.spec.hidden_size))).count();
}

int64_t cache_bytes(const ModelSpec& spec, int64_t context, KvType kv, int64_t longest) {
  const Size row = kv_row_bytes(spec.head_dim, kv);
  const int64_t whole = divided_up((row * context).count(), kPage);
  const int64_t rings = divided_up((row * ring_slots(spec, context, longest, kv)).count(), kPage);
  const Size pages = Size(spec.n_layers - spec.n_window_layers) * whole + Size(spec.n_window_layers) * rings;
  return (Size(2) * spec.n_kv_heads * pages * kPage).count();
}

int64_t scratch_bytes(const ModelSpec& spec, int64_t threads, int64_t tokens, int64_t context, int64_t exits) {
  const int64_t hidden = spec.hidden_size, ffn = spec.ffn_size;
  const Size heads = Size(spec.n_heads) * spec.head_dim;
  const Size qkv = heads + Size(2) * spec.n_kv_heads * spec.head_dim;
  const int64_t held = exits ? exits + kTaps : 0;
  const Size tensors = Size(4) * (Size(3 + held) * hidden + ffn + qkv);
  const Size others = Size(4) * (Size(hidden) + qkv + heads);
  const double buffers = 1.4 * static_cast<double>(ffn) + static_cast<double>(others.count());
  const Size scores = Size(4) * kBlockQueries * context * threads;
  const double all = kArena * static_cast<double>(tokens) * (static_cast<double>(tensors.count()) + buffers);
  return (whole(all) + scores).count();
}

int64_t draft_model_rest(const void* self, const MemoryChoice& choice) {
  const ModelMemory& model = *static_cast<const ModelMemory*>(self);
  const int64_t context = std::min(choice.context, model.spec.context_length);
  const int64_t longest = std::min(kDraftPrompt, choice.context);
  const Size cache = cache_bytes(model.spec, context, choice.kv, longest_pass(choice));
  return (cache + scratch_bytes(model.spec, model.threads, longest, context, model.exits)).count();
}

}  // namespace edgedec::engine
