// Memory of a process, as a formula over the sizes of its models and the choices of a plan: edgedec/memory/footprint.py,
// which derives the formulas, for one sequence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model_spec.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

// The settings that a memory plan may lower.
struct MemoryChoice {
  int64_t context = 0;        // tokens of the KV cache
  KvType kv = KvType::kFp16;
  int64_t prompt_pass = 128;  // tokens of a prompt in one pass
  int64_t drafted = 15;       // most drafted tokens in one pass
  int64_t tables = 0;         // bytes that drafters without a model may learn
  bool model_drafts = false;  // whether drafters with weights of their own are used
};

// The facts of a loaded model that decide its memory.
struct ModelMemory {
  ModelSpec spec;
  int64_t weights = 0;  // bytes of the weights that a pass reads
  int64_t threads = 1;
  int64_t hidden = 0;  // numbers of a token's hidden states, if the model was opened to return them
  int64_t exits = 0;
};

// The memory of a drafter with weights of its own.
struct DrafterMemory {
  std::string part;     // its name in the plan
  int64_t weights = 0;  // bytes that its passes read
  // Returns the bytes of cache, scratch and buffers by the choices of a plan. `self` is handed back.
  int64_t (*rest)(const void* self, const MemoryChoice& choice) = nullptr;
  const void* self = nullptr;
};

// The facts that no plan changes.
struct MemoryFacts {
  ModelMemory target;
  int64_t process = 0;  // bytes resident with the models loaded, without their weights
  int64_t drawing = 0;  // bytes that a draw takes for each entry of a whole row of logits; 0: nobody asks for such rows
  std::vector<DrafterMemory> drafters;
  bool unnamed = false;  // whether nobody named these drafters: they take only memory that nothing else needs
  bool int8_possible = true;  // whether every model can keep its cache in int8
  // Small allocations that nobody leases: of the program, its libraries and the buffers of passes. The defaults are
  // those of a process with Python.
  int64_t slack = 6'500'000, slack_per_token = 1'500;
};

struct MemoryPart {
  std::string name;
  int64_t bytes = 0;
};

// Tokens of the longest pass.
int64_t longest_pass(const MemoryChoice& choice);
// Bytes by purpose. Their sum is the most that the process has resident at once.
std::vector<MemoryPart> footprint(const MemoryFacts& facts, const MemoryChoice& choice);
int64_t sum_of(const std::vector<MemoryPart>& parts);

// Bytes of whole rows of logits: one for each of `drafted` tokens and one more, and a draw from one.
int64_t rows_bytes(const MemoryFacts& facts, int64_t drafted);
// Bytes of the hidden states of a pass and of rows of peeked tokens. 0 for a model opened without exits.
int64_t hidden_bytes(const ModelMemory& model, int64_t longest, int64_t drafted);
// Bytes of the pages that `context` tokens fill, in passes over at most `longest` tokens.
int64_t cache_bytes(const ModelSpec& spec, int64_t context, KvType kv, int64_t longest);
// Bytes that a pass over `tokens` tokens holds for a moment beside its results.
int64_t scratch_bytes(const ModelSpec& spec, int64_t threads, int64_t tokens, int64_t context, int64_t exits);
// Bytes of a draft model beside its weights: cache and scratch. For DrafterMemory::rest, with a ModelMemory as `self`.
int64_t draft_model_rest(const void* self, const MemoryChoice& choice);

}  // namespace edgedec::engine
