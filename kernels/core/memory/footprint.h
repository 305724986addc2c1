// Memory of a process, as a formula over the sizes of its models and the choices of a plan.
//
// After SpecMemo (2025), which models the memory of speculation to bound it. Its formulas are not public; these are derived
// from the allocations of this runtime.
//
// Symbols: n tokens of context; T tokens of a prompt in one pass; g drafted tokens in one pass; P = max(T, 1 + g); D and F the
// widths of hidden state and MLP; Q the width of query, key and value together; H the width of all heads; V the vocabulary;
// L layers; H_kv key/value heads; r bytes of a row.
//
//   process    resident bytes once the models are loaded, weights apart: measured, not modelled. The most that the process
//              for an unknown chat template takes is added
//   weights    all bytes of the file, for a pass reads them all. A table of embeddings that the head does not share does
//              not count: passes copy its rows from the file
//   experts    slots for experts that are read from the disk: what the other parts leave of the budget
//   kv_cache   2 L H_kv ceil(n r / page) page: the rows of a head lie together, and pages are committed as they fill. Drafts
//              need none of their own: rejected rows are overwritten. In layers with a window, n is at most the slots of a
//              ring: window, P, and tokens that can be taken back
//   state      4 L_s (R t + 2 s) where L_s recurrent layers keep t numbers of each of R tokens and a state of s: rows, the
//              state, and a checkpoint to go back to; for any n
//   scratch    1.5 P (4 (3 D + F + Q) + 1.4 F + 4 (D + Q + H)) + 96 n threads: tensors of a layer and buffers of the kernels,
//              held at once. With X exits, 4 (X + 3) D P more before the factor. The arena rounds up by up to half. 24
//              queries share a block of attention, each with a float per key. With E experts of width W, of which a token
//              takes k: 4 P E + 5.5 (D + W) max(P, min(P k, 512))
//   rows       V (4 (1 + g) + s) where sampling may ask for whole rows of logits, else 0: a draw from a row takes s bytes for
//              each entry, and all sequences draw at the same time
//   grammar    as the host states, where structured output is asked for
//   hidden     4 (2 P W + 2 (1 + g) (W + D)) where a drafter reads hidden states, W numbers a token
//   attention  where a full cache evicts by attention: the attention to every slot, and the choice
//   tables     data that drafters without a model learn
//   small      weights, cache, scratch and tables of a small model that takes turns with the target
//   drafter    and others of drafters with weights of their own: as each kind states
//   slack      6.5 MB and 1.5 kB a token: Python, libraries and the buffers of passes, as measured
//
// With k sequences, n is the context of each: cache, rows, tables and slack per token are k times as large, P is
// (k - 1) (1 + g) longer, and slack has 1 MB for each sequence but one. A draft model has k caches, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model_spec.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

// The settings that a memory plan may lower.
struct MemoryChoice {
  int64_t context = 0;        // tokens of the KV cache, for each sequence
  KvType kv = KvType::kFp16;
  int64_t prompt_pass = 128;  // tokens of a prompt in one pass
  int64_t drafted = 15;       // most drafted tokens in one pass
  int64_t tables = 0;         // bytes that drafters without a model may learn, for each sequence
  bool model_drafts = false;  // whether drafters with weights of their own are used
  int64_t experts = 0;        // experts in memory at a time, of a model that reads them from the disk
};

// The facts of a loaded model that decide its memory.
struct ModelMemory {
  ModelSpec spec;
  int64_t weights = 0;  // bytes of the weights that a pass reads
  int64_t threads = 1;
  int64_t hidden = 0;  // numbers of a token's hidden states, if the model was opened to return them
  int64_t exits = 0;
  int64_t slot_bytes = 0;    // bytes of an expert that is read from the disk, and not among `weights`; 0: none is
  int64_t least_experts = 0;  // with which passes go on
  int64_t most_experts = 0;   // of the whole model, or as many as the machine has room for
};

// The memory of a drafter with weights of its own.
struct DrafterMemory {
  std::string part;     // its name in the plan
  int64_t weights = 0;  // bytes that its passes read; 0 if another part has them
  // Returns the bytes of cache, scratch and buffers by the choices of a plan and the sequences. `self` is handed back.
  int64_t (*rest)(const void* self, const MemoryChoice& choice, int64_t sequences) = nullptr;
  const void* self = nullptr;
};

// The facts that no plan changes.
struct MemoryFacts {
  ModelMemory target;
  std::optional<ModelMemory> small;  // the small model that takes turns with the target
  int64_t process = 0;  // bytes resident with the models loaded, without their weights
  int64_t drawing = 0;  // bytes that a draw takes for each entry of a whole row of logits; 0: nobody asks for such rows
  int64_t grammar = 0;  // bytes that grammars take of the vocabulary; 0: nobody asks for structured output
  std::vector<DrafterMemory> drafters;
  bool unnamed = false;  // whether nobody named these drafters: they take only memory that nothing else needs
  bool fp16_possible = true, int8_possible = true;  // whether every model can keep its cache so
  int64_t sequences = 1;  // that share the model and its passes
  int64_t observed = 0;   // tokens whose attention is asked for where a full cache evicts by it; 0: it does not
  // Small allocations that nobody leases: of the program, its libraries and the buffers of passes. The defaults are
  // those of a process with Python.
  int64_t slack = 6'500'000, slack_per_token = 1'500;
};

struct MemoryPart {
  std::string name;
  int64_t bytes = 0;
};

// Tokens of the longest pass: a piece of one sequence's prompt, beside the drafts of all others.
int64_t longest_pass(const MemoryChoice& choice, int64_t sequences = 1);
// Bytes by purpose. Their sum is the most that the process has resident at once.
std::vector<MemoryPart> footprint(const MemoryFacts& facts, const MemoryChoice& choice);
int64_t sum_of(const std::vector<MemoryPart>& parts);

// Bytes of whole rows of logits: one for each of `drafted` tokens and one more, and a draw from one. 0 where nobody asks for
// whole rows, as in greedy decoding.
int64_t rows_bytes(const MemoryFacts& facts, int64_t drafted);
// Bytes of the pages that `context` tokens of each sequence fill, in passes over at most `longest` tokens.
int64_t cache_bytes(const ModelSpec& spec, int64_t context, KvType kv, int64_t longest, int64_t sequences = 1);
// Bytes that a pass over `tokens` tokens holds for a moment beside its results. `exits`: of a graph that has them. The
// runtime holds the rows of each, and of three layers more, as long as the pass runs.
int64_t scratch_bytes(const ModelSpec& spec, int64_t threads, int64_t tokens, int64_t context, int64_t exits);
// Bytes of a choice of slots by attention: numbers of slots and whether they ascend, of a layer the arrays of the best, of
// a head its rows.
int64_t choice_bytes(const ModelSpec& spec, int64_t slots);
// Bytes of a draft model beside its weights: cache and scratch. `beside`: tokens of each other conversation in a pass.
int64_t draft_model_bytes(const ModelMemory& model, const MemoryChoice& choice, int64_t sequences, int64_t beside);
// The same of one conversation, for DrafterMemory::rest, with a ModelMemory as `self`.
int64_t draft_model_rest(const void* self, const MemoryChoice& choice, int64_t sequences);

}  // namespace edgedec::engine
