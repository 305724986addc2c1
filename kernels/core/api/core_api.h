// The inner C API of the core: for a host in the same process, of the same build (edgedec/core_lib). It may change with every
// version, and is no part of edgedec.h.
//
// - Pointers that are handed in are read during the call alone, except those of an edgedec_core_grammar. They may be null
//   where their count is 0. Results are written to arrays of the caller, of the size that a function states.
// - A handle is used by one thread at a time, and freed by its own function. Handles know nothing of each other.
// - An int result is 0 or more, or it is an error: -code, with the codes of core/base/status.h. edgedec_core_error() then
//   says it in words.
// - Functions call back only what they were handed. A callback that fails notes its error with the host: the call that asked
//   it fails too, or returns what is of no use then.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/capi.h"

// "message\nhint" of this thread's latest call that failed. Valid until the next.
EDGEDEC_EXPORT const char* edgedec_core_error();

// ---- Settings of draws: edgedec/sampling/params.py. They are in their ranges, and the bias by ascending id.
struct edgedec_core_params {
  uint64_t seed;
  int64_t top_k;
  double temperature, top_p, min_p, top_n_sigma, typical, eta, top_h, mirostat, mirostat_eta, edt, repetition_penalty,
      frequency_penalty, presence_penalty;
  int64_t biases;
  const int32_t* bias_ids;   // [biases]
  const double* bias_values;
};

// Checks the ranges. -kUsage.
EDGEDEC_EXPORT int edgedec_core_check(const edgedec_core_params* params);

// Says of draws from lists of `head_k`: needs[0]: whether they may need whole rows of logits; needs[1]: the temperature at
// which a pass should sum up; needs[2]: bytes that a draw takes per entry of a whole row, beside it. `at_one`: with
// log-probabilities or the entropy at temperature 1; `masked`: under a grammar.
EDGEDEC_EXPORT void edgedec_core_needs(const edgedec_core_params* params, int64_t head_k, int at_one, int masked,
                                       double* needs);

// ---- Head results of a pass: edgedec/core/rows.py.
struct edgedec_core_head {
  int64_t rows, k, vocabulary;
  const float* values;    // [rows, k], best first
  const int32_t* ids;     // [rows, k]
  const float* logsumexp; // [rows]
  const float* entropy;   // [rows]
  const float* logits;    // [rows, vocabulary], or null
  double temperature;     // of logsumexp and entropy
};

// The model's own distribution behind a row, at temperature 1. out[0]: log-probability of `token`, out[1]: what to take from
// the logit of any other for its log-probability; out[2]: entropy in bits. -kBackend where the pass has none of it.
EDGEDEC_EXPORT int edgedec_core_at_one(const edgedec_core_head* head, int64_t row, int32_t token, int want_token,
                                       int want_entropy, double* out);

// ---- The grammar of a reply: core/decode/grammar.h. A failed callback returns what is stated here.
struct edgedec_core_grammar {
  // Goes to behind `count` tokens that follow the committed ones. 1: nothing may follow; 0; -1: it failed.
  int (*follow)(const int32_t* tokens, int64_t count);
  // Writes the tokens that come next for certain, at most `most`, up to the first choice; returns how many; -1: it failed.
  int (*forced)(int32_t* tokens, int64_t most);
  // Whether a token may come next; 0: it failed.
  int (*permits)(int32_t token);
  // A bit for each token of the vocabulary, which stays until the call is over; null: it failed.
  const uint8_t* (*bits)();
};

// ---- The decoding loop: plan says which pass to run, the host runs it, verify and settle take its rows. Before it the host
// checked the request, rewound the cache to what the prompt shares with it, and began the drafters. Behind verify it keeps
// what was accepted in the cache.
struct edgedec_core_engine;

// Writes the tokens that were peeked since the cache last changed, at most `most`, and returns how many there are.
typedef int64_t (*edgedec_core_peeked)(int32_t* tokens, int64_t most);

// A round, in memory of the host. The arrays have room for edgedec_core_longest_pass() tokens and the longest draft.
struct edgedec_core_round {
  int32_t* tokens;   // of the pass
  int32_t* parents;  // indices into it, -1 for a child of the cache's last token; nothing for a chain
  int32_t* said;     // the tokens that the verdict commits
  int32_t* writers;  // their drafters; -1: the target
  int32_t* path;     // the accepted nodes of the draft from the root down
  double* bounds;    // mirostat's state behind each token, written where the settings have it
  int32_t piece;     // whether the pass is over a piece of what the cache lacks, of which no rows are needed
  int32_t waiting;   // committed tokens of the pass; those behind them are drafted
  int32_t accepted;  // nodes of `path`
  int32_t end;       // whether the last token ends the reply: 1: a stop id or the grammar; 2: the end of the sequence; 0
};

// `speculation`: a handle, which outlives this one, or null for none. `peeked`: null where the model cannot.
struct edgedec_core_engine_parts {
  int64_t vocabulary, head_k;
  void* speculation;
  edgedec_core_peeked peeked;
  edgedec_core_round* round;
};

EDGEDEC_EXPORT edgedec_core_engine* edgedec_core_engine_new(const edgedec_core_engine_parts* parts);
EDGEDEC_EXPORT void edgedec_core_engine_free(edgedec_core_engine* engine);

// Begins a reply. `tokens` are all before its next token, the last `said` of them of the reply itself. `bound`: mirostat's
// state behind those; null: as a reply begins. `end`: most tokens of the whole sequence. `grammar` is copied, and its
// functions are called until the next reply begins; null: none.
EDGEDEC_EXPORT int edgedec_core_engine_begin(edgedec_core_engine* engine, const edgedec_core_params* params,
                                             const int32_t* tokens, int64_t count, int64_t said, const double* bound,
                                             int64_t end, const int32_t* stop_ids, int64_t stops,
                                             const edgedec_core_grammar* grammar);

// Plans the next pass. The cache holds `length` tokens; a pass may have `most` tokens, and with a draft `undone`; 0: no other
// bound. Returns how many it has; -1: the host's code stopped a call of the speculation.
EDGEDEC_EXPORT int edgedec_core_engine_plan(edgedec_core_engine* engine, int64_t length, int64_t most, int64_t undone);

// Verifies the draft of the planned pass: row 0 of `head` answers the last committed token, row i + 1 drafted token i. Returns
// how many tokens the verdict commits, at least 1. `head` is read by the settle that follows, too.
EDGEDEC_EXPORT int edgedec_core_engine_verify(edgedec_core_engine* engine, const edgedec_core_head* head);

// Commits the verdict. `head`: what to verify first, where the cache need not know of it in between, with the result of verify;
// else null. `seconds` below 0: the pass was not timed; `missed` below 0: it read nothing from a disk. -1 as plan.
EDGEDEC_EXPORT int edgedec_core_engine_settle(edgedec_core_engine* engine, const edgedec_core_head* head, double seconds,
                                              double missed, double waited_s);

// Writes the probabilities and the drafters of the settled draft, and returns its size.
EDGEDEC_EXPORT int64_t edgedec_core_engine_draft(const edgedec_core_engine* engine, double* probs, int32_t* sources);

// Most committed tokens of a pass, whatever the model takes.
EDGEDEC_EXPORT int64_t edgedec_core_longest_pass();

// For tests that compare verdicts with another definition: the verdict on a tree of theirs, whose first token will have
// `position`, and a token noted as committed. Most bytes that the lists of draws have held at the end of one.
EDGEDEC_EXPORT int edgedec_core_engine_verdict(edgedec_core_engine* engine, const edgedec_core_head* head, int64_t nodes,
                                               const int32_t* tokens, const int32_t* parents, int64_t position);
EDGEDEC_EXPORT void edgedec_core_engine_commit(edgedec_core_engine* engine, int32_t token, double bound);
EDGEDEC_EXPORT int64_t edgedec_core_engine_drawn_bytes(const edgedec_core_engine* engine);

// ---- Drafters that run models: core/draft.

// A model of the host's, as drafters call it: DraftForward of core/decode/forward.h. A call that returns an int fails with
// any other than 0. Functions are called in calls of the drafter alone.
struct edgedec_core_forward {
  int64_t capacity, max_pass, most_undone;
  int trees;
  const double* share;  // null: each pass is this sequence's alone
  int64_t (*length)();
  int64_t (*reachable)(int64_t length);
  int64_t (*peeked)();
  int (*rewind)(int64_t length);
  int (*keep_path)(const int32_t* nodes, int64_t count);
  // `parents`: null for a chain. `rows`: one of edgedec_core_rows. `trimmed`: whether the head computes the ids that the
  // drafter's trimmed head keeps now. `head` is filled, with what stays until the next call.
  int (*extend)(const int32_t* tokens, int64_t count, const int32_t* parents, int rows, int trimmed, edgedec_core_head* head);
  // `resume` 0: no further layers.
  int (*peek)(const int32_t* tokens, int64_t count, int exit, int resume, int trimmed, edgedec_core_head* head);
};
enum edgedec_core_rows { EDGEDEC_CORE_LAST_ROW, EDGEDEC_CORE_ALL_ROWS, EDGEDEC_CORE_NO_ROWS };

// When a head computes some ids only: core/draft/trimmed_head.h. Drafters that are made with one share its state.
struct edgedec_core_trimmed;
EDGEDEC_EXPORT edgedec_core_trimmed* edgedec_core_trimmed_new(const int64_t* ids, int64_t count, double bound, double saved);
EDGEDEC_EXPORT edgedec_core_trimmed* edgedec_core_trimmed_again(const edgedec_core_trimmed* it, int shared);
EDGEDEC_EXPORT edgedec_core_trimmed* edgedec_core_trimmed_beside(const edgedec_core_trimmed* it);
EDGEDEC_EXPORT void edgedec_core_trimmed_free(edgedec_core_trimmed* it);
EDGEDEC_EXPORT int64_t edgedec_core_trimmed_bytes(const edgedec_core_trimmed* it);
// Most ids that it keeps.
EDGEDEC_EXPORT int64_t edgedec_core_trimmed_most(const edgedec_core_trimmed* it);
// The ids to keep now, and a number that changes with them; a count of 0: all. They stay until a text goes on.
EDGEDEC_EXPORT const int64_t* edgedec_core_trimmed_keep(const edgedec_core_trimmed* it, int64_t* count, int64_t* version);

struct edgedec_core_drafter;

// A drafter with layers of its target: core/draft/exit_drafter.h, which explains the fields. `resume` 0: no further layers;
// `trimmed`, `doubts` (unsure_nats and least_reach of core/draft/doubts.h): null for none, and for the usual.
struct edgedec_core_exit {
  const edgedec_core_forward* forward;
  const edgedec_core_trimmed* trimmed;
  const double* doubts;
  const int32_t* ends;
  int64_t ends_count, table_bytes, vocabulary;
  double layer_bytes, head_bytes;
  int exit, resume, last;
};
EDGEDEC_EXPORT edgedec_core_drafter* edgedec_core_drafter_exit_new(const edgedec_core_exit* given);

// A bridge between the target's tokens and those of a draft model, which may be used beside its drafter: core/draft/bridge.h.
struct edgedec_core_bridge;
// `size`: ids that both models have.
EDGEDEC_EXPORT edgedec_core_bridge* edgedec_core_bridge_same_new(int64_t size);
// Bytes, or token ids, that stay until the next call of the host.
struct edgedec_core_list {
  const void* data;
  int64_t size;
};
// A tokenizer: core/draft/codec.h. The bytes of a token are asked for once. A call fails with any other than 0.
struct edgedec_core_codec {
  int (*piece)(int32_t token, edgedec_core_list* bytes);
  int (*encode)(const char* text, int64_t size, edgedec_core_list* ids);
};
// By text: core/draft/text_bridge.h. to_target() says a token's counterpart, once for each of `draft_size` ids; -1: none.
struct edgedec_core_texts {
  edgedec_core_codec target, draft;
  int32_t (*to_target)(int32_t id);
  int64_t draft_size, controls, opening_count;
  const int32_t* controls_theirs;  // [controls], control tokens of the target
  const int32_t* controls_mine;    // [controls], and the drafter's of the same role
  const int32_t* opening;
};
EDGEDEC_EXPORT edgedec_core_bridge* edgedec_core_bridge_text_new(const edgedec_core_texts* given);
EDGEDEC_EXPORT void edgedec_core_bridge_free(edgedec_core_bridge* it);
EDGEDEC_EXPORT int edgedec_core_bridge_begin(edgedec_core_bridge* it, const int32_t* tokens, int64_t count, int64_t kept);
EDGEDEC_EXPORT int edgedec_core_bridge_commit(edgedec_core_bridge* it, const int32_t* tokens, int64_t count);
// The committed sequence in the drafter's ids, which stay until the next call. Returns how many.
EDGEDEC_EXPORT int64_t edgedec_core_bridge_read(edgedec_core_bridge* it, const int32_t** ids);
EDGEDEC_EXPORT int64_t edgedec_core_bridge_bytes(const edgedec_core_bridge* it);

// A drafter with a smaller model: core/draft/model_drafter.h.
struct edgedec_core_model {
  const edgedec_core_forward* forward;
  const edgedec_core_bridge* bridge;
  const edgedec_core_trimmed* trimmed;
  const double* doubts;
  double weight_bytes, slot_bytes, table_bytes;
};
EDGEDEC_EXPORT edgedec_core_drafter* edgedec_core_drafter_model_new(const edgedec_core_model* given);

// A layer of the host's with a cache of its own: core/draft/layer_forward.h. `sizes`: those of LayerSizes, in its order. step()
// runs the pass that it finds in `pass`, and fills what stays until the next call.
struct edgedec_core_found {
  edgedec_core_head head;  // the rows asked for
  const float* states;     // [count, hidden]: those behind all tokens of the pass
};
struct edgedec_core_layer_pass {
  const int32_t* tokens;
  int64_t count, committed, rows_count;
  const float* taps;         // [committed, width]
  const float* states;       // [count - committed, hidden]
  const int32_t* parents;    // null for a chain
  const int32_t* rows;
  int trimmed;               // whether the head computes the ids that the drafter's trimmed head keeps now
};
struct edgedec_core_layer {
  const int64_t* sizes;
  edgedec_core_layer_pass* pass;
  int (*step)(edgedec_core_found* found);
  int (*rewind)(int64_t length);
};
// Most tokens whose hidden states wait for a layer, and most drafted tokens in a pass of it.
EDGEDEC_EXPORT void edgedec_core_drafter_layer_limits(int64_t* waiting, int64_t* fed);
// Drafters with a trained head over the outputs of the layers `taps`, and with an MTP layer; `trimmed`: null for none.
EDGEDEC_EXPORT edgedec_core_drafter* edgedec_core_drafter_head_new(const edgedec_core_layer* layer, const int32_t* taps,
                                                                   int64_t count);
EDGEDEC_EXPORT edgedec_core_drafter* edgedec_core_drafter_mtp_new(const edgedec_core_layer* layer, int tap,
                                                                  const edgedec_core_trimmed* trimmed);

// An assistant of the host's: core/draft/assistant_steps.h, which explains the sizes. `first`: whether `given` is the output of
// the target's layer, and not a state.
struct edgedec_core_assistant {
  int64_t hidden, weights;
  int64_t slot[2], most[2];
  int (*look)(int64_t* length, int64_t* slots);
  int (*step)(int32_t token, int64_t position, int64_t slots, int first, const float* given, edgedec_core_found* found);
};
EDGEDEC_EXPORT edgedec_core_drafter* edgedec_core_drafter_assistant_new(const edgedec_core_assistant* assistant, int tap);

EDGEDEC_EXPORT void edgedec_core_drafter_free(edgedec_core_drafter* it);
// The calls of core/decode/drafter.h. A failed one fails with what the host's call failed with.
EDGEDEC_EXPORT int edgedec_core_drafter_sampled(edgedec_core_drafter* it, const edgedec_core_params* params);
EDGEDEC_EXPORT int edgedec_core_drafter_begin(edgedec_core_drafter* it, const int32_t* tokens, int64_t count, int64_t kept);
EDGEDEC_EXPORT int edgedec_core_drafter_commit(edgedec_core_drafter* it, const int32_t* tokens, int64_t count);
EDGEDEC_EXPORT int edgedec_core_drafter_read(edgedec_core_drafter* it, int64_t start, const float* hidden, int64_t count);
// Returns how many tokens it drafted, at most `limit`, for which there is room.
EDGEDEC_EXPORT int edgedec_core_drafter_propose(edgedec_core_drafter* it, int64_t limit, double floor, int32_t* tokens,
                                                int32_t* parents, double* probs);
// Returns how many tokens may follow `tokens`, at most `limit`, for which there is room in `found`.
EDGEDEC_EXPORT int edgedec_core_drafter_ahead(edgedec_core_drafter* it, const int32_t* tokens, int64_t count, int64_t limit,
                                              int32_t* found);
// work[0..2]: DraftWork so far; work[3]: tokens that the latest draft computed parts of.
EDGEDEC_EXPORT void edgedec_core_drafter_work(const edgedec_core_drafter* it, int64_t* work);
EDGEDEC_EXPORT int64_t edgedec_core_drafter_bytes(const edgedec_core_drafter* it);

// ---- Functions for tests: parts of drafters, and other definitions of the same numbers.
// Choices of a drafter under the noise of the target: core/draft/choices.h. Tokens as for a reply; `behind` are drafted
// ones; `theirs`: the target's id of each of the drafter's, below 0 where there is none, or null where they are the same.
// Returns how many it found, best first, at most 4, for which there is room.
EDGEDEC_EXPORT int edgedec_core_choices(const edgedec_core_params* params, const edgedec_core_head* head, int64_t position,
                                        const int32_t* tokens, int64_t count, int64_t said, const int32_t* behind,
                                        int64_t drafted, const int32_t* theirs, int32_t* found, double* probs);
// Calls of drafters to a trimmed head.
EDGEDEC_EXPORT void edgedec_core_trimmed_begin(edgedec_core_trimmed* it);
EDGEDEC_EXPORT void edgedec_core_trimmed_follow(edgedec_core_trimmed* it, const int32_t* text, int64_t count);
EDGEDEC_EXPORT double edgedec_core_trimmed_outside(const edgedec_core_trimmed* it);
// A draft in the drafter's ids as one in the target's, in room for as many nodes as `room`. Returns how many it has.
EDGEDEC_EXPORT int edgedec_core_bridge_tree(edgedec_core_bridge* it, int64_t count, const int32_t* tokens,
                                            const int32_t* parents, const double* reach, int64_t room, int32_t* tokens_out,
                                            int32_t* parents_out, double* reach_out);
// Counterparts of ids; whether nothing is drafted behind a token; how many tokens spell those behind the committed text.
EDGEDEC_EXPORT void edgedec_core_bridge_to_target(edgedec_core_bridge* it, const int32_t* ids, int64_t count, int32_t* theirs);
EDGEDEC_EXPORT int edgedec_core_bridge_ends(edgedec_core_bridge* it, int32_t token);
EDGEDEC_EXPORT int64_t edgedec_core_bridge_length(edgedec_core_bridge* it, const int32_t* tokens, int64_t count);
// exp and log of sampling/portable.h (0, 1), uniform and exponential noise of ids (2, 3), or exp of all at once (4).
EDGEDEC_EXPORT void edgedec_core_numbers(int which, const double* x, int64_t count, uint64_t seed, int64_t position,
                                         double* out);
