// EdgeDec in a browser: the native engine as edgedec.wasm, a state machine that says which pass over the model it needs
// next. Somebody else computes the pass: WebGPU through JavaScript, whose results arrive later, or edgedec_web_compute,
// which needs nothing but a CPU. Tokens, drafts and plans are those of edgedec.h.
//
//     for (const [name, bytes] of files) file(...)         // those of the bundle that are listed at edgedec_web_file
//     const engine = edgedec_web_open(options)             // 0: edgedec_web_text() is an error
//     if (!facts.costs) edgedec_web_measure(engine), turns // once; what it measured can be kept for the next start
//     edgedec_web_begin(engine, request)
//     turns: while (edgedec_web_next(engine) === 1) {
//       const pass = edgedec_web_pass_of(engine)            // where the pass is described, and its results go
//       const began = performance.now()
//       await gpu(pass)                                    // or edgedec_web_compute(engine)
//       edgedec_web_give(engine, (performance.now() - began) / 1000)
//       show(JSON.parse(text()))                           // tokens that were committed, with their text
//     }
//     figures = JSON.parse(text())
//
// Texts. A text that comes in is UTF-8, given by its first byte and its number of bytes, and read during the call. A call
// that answers with a text leaves it at edgedec_web_text(), edgedec_web_text_size() bytes of UTF-8, until the next call.
// Errors. A function that returns int32_t returns 0, or an edgedec_code of edgedec.h; the text is then an object with
// `code`, `message` and `hint`. A failed call changes nothing, unless its comment says so.
// Memory. All addresses are places in the module's linear memory, which may grow during every call: JavaScript makes its
// typed arrays after a call and not before. wasm32 addresses 4 GiB.
// Imports. Two functions: `env.edgedec_now()`, seconds that never go back, as a double; and `env.edgedec_peek(engine)`, see
// edgedec_web_peeks. edgedec-fast.wasm also imports its memory, `env.memory`, which is shared.
#ifndef EDGEDEC_WEB_H_
#define EDGEDEC_WEB_H_

#include <stddef.h>
#include <stdint.h>

#define EDGEDEC_WEB_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct edgedec_web edgedec_web;

// A pass that the engine waits for. Offsets in wasm32, where each field has four bytes, stand at its end.
//
// Token i of the pass lies in slot length + i of the KV cache and sees the resident slots 0 .. length - 1, its ancestors
// in the pass, and itself. Before the pass, slot `from[i]` of every layer, keys and values, is copied to slot `to[i]`; all
// are read before any is written, and from[i] > to[i] >= to[i - 1].
//
// Recurrent layers keep states and trails (kernels/recurrent/steps.h), which a model without such layers lacks. After the
// copies, which trails take as well, they do what `restore` says. With `keep` a checkpoint of them is taken behind the pass.
enum {
  EDGEDEC_WEB_STAY = 0,     // they cover `applied` tokens
  EDGEDEC_WEB_RESTORE = 1,  // they go back to the checkpoint, which covers `applied` tokens
  EDGEDEC_WEB_CLEAR = 2     // they become empty
};

typedef struct edgedec_web_pass {
  uint32_t tokens;           // T, at least 1                                                                            0
  uint32_t rows;             // R, at most T; 0 where no results are wanted                                              4
  uint32_t length;           // resident tokens, after the copies                                                        8
  uint32_t full;             // 1: whole rows of logits are wanted too                                                  12
  uint32_t moves;            // number of copies                                                                        16
  uint32_t k;                // entries of a row of `values` and `ids`                                                  20
  uint32_t vocabulary;       // entries of a row of `logits`                                                            24
  float inverse;             // 1 / temperature, of logsumexp and entropy                                               28
  const int32_t* token_ids;  // [T]                                                                                     32
  const int32_t* positions;  // [T]                                                                                     36
  const int32_t* parents;    // [T] index in the pass, below the token's own; -1: the last resident token               40
  const uint32_t* paths;     // [T][1 + T] number of ancestors in the pass, then these from the root on, then the token 44
  const int32_t* chosen;     // [R] indices of the tokens whose rows are wanted                                         48
  const uint32_t* from;      // [moves]                                                                                 52
  const uint32_t* to;        // [moves]                                                                                 56
  float* values;             // [R][k]  results: the k largest logits, best first                                       60
  int32_t* ids;              // [R][k]  their ids; of equal logits the lower id first                                   64
  float* logsumexp;          // [R]                                                                                     68
  float* entropy;            // [R]                                                                                     72
  float* logits;             // [R][vocabulary], or 0 where `full` is 0                                                 76
  uint32_t applied;          // tokens that the states cover before the pass                                            80
  uint32_t restore;          // EDGEDEC_WEB_STAY, EDGEDEC_WEB_RESTORE or EDGEDEC_WEB_CLEAR                              84
  uint32_t keep;             // tokens that the checkpoint behind the pass covers; 0: none is taken                     88
  uint32_t done;             // first tokens of the T that peeks have run through the first layers                      92
  uint32_t below;            // the number of these layers; 0 in a pass of which no token is done                       96
  uint32_t above;            // of a peek: layers behind which it goes on; 0: this is no peek                          100
  uint32_t kept;             // ids that the head computes, with k entries at most; 0: all                             104
  const int32_t* kept_ids;   // [kept], ascending                                                                      108
} edgedec_web_pass;

// Memory for files and for the arrays of a call, at a multiple of 64; NULL: there is none.
EDGEDEC_WEB_API void* edgedec_web_alloc(size_t size);
EDGEDEC_WEB_API void edgedec_web_free(void* memory);

// The text of the latest call.
EDGEDEC_WEB_API const char* edgedec_web_text(void);
EDGEDEC_WEB_API size_t edgedec_web_text_size(void);

// Hands over a file of the bundle, in memory of edgedec_web_alloc, which belongs to the module from then on; data NULL
// takes the file back and frees it. Engines read: manifest.json; tokenizer.table; chat_template.jinja and
// chat_template.program where the bundle has them; drafters/tables/drafter.json and the .table files beside it, if there
// are some; for edgedec_web_cpu also cpu.json and weights.bin. JavaScript compares hashes with the manifest. Files stay
// until the last engine that read them is closed. Only edgedec.wasm has this function.
EDGEDEC_WEB_API int32_t edgedec_web_file(const char* name, size_t name_size, uint8_t* data, size_t size);

// Opens the bundle; NULL: the text is an error. Options are an object, all of whose members can be left out:
//   context       tokens of the KV cache; default: the model's limit, at most 4096
//   max_pass      most tokens of one pass, 16 to 128; default 128
//   draft         "auto", "off", or names by comma as edgedec.h has them; those with files draft once edgedec_web_cpu was called
//   memory        bytes that the module may take; with less than passes on the CPU need, keys and values are kept as int8
//   draft_tokens  most tokens drafted for one pass, 1 to 15
//   costs         what edgedec_web_measure found at an earlier start with the same model and device: [[tokens, seconds], ..]
//   folder        where the files lie, for programs that have files; edgedec.wasm reads those of edgedec_web_file
// The text is then an object of facts: model, architecture, vocabulary, k, layers, kv_heads, head_dim, context, max_pass,
// chat_template, draft (a list of names), costs (whether they are known), sampling (the model's preset), cpu (whether it computes
// passes itself); then also kv ("fp16" or "int8"), memory (bytes that were planned) and notes (a list of lines).
EDGEDEC_WEB_API edgedec_web* edgedec_web_open(const char* options, size_t size);
EDGEDEC_WEB_API void edgedec_web_close(edgedec_web* engine);

// Begins to measure what passes cost, which decides when drafts pay: some passes of 1 to 16 tokens, asked for as those
// of a reply are, then an empty KV cache. Without costs replies are not drafted for. When edgedec_web_next returns 0, the
// text is an object with `costs`, to be kept and handed to edgedec_web_open.
EDGEDEC_WEB_API int32_t edgedec_web_measure(edgedec_web* engine);

// Begins a reply. A request is an object with one of
//   messages  [{"role": .., "content": ..}, ..] as for edgedec_reply; the last one is the user's
//   text      continued as it stands
//   tokens    a list of ids, continued
//   continue  true: the latest reply goes on where it ended
// and, all optional, max_tokens (0: as far as the context reaches), sampling (an object of the names that a preset has; a
// name that is missing has the preset's value, or is off where temperature is named and 0), seed (a number, or its digits
// as a text), logit_bias ([[id, value], ..]), stop (a list of texts), draft (false: nothing is drafted), and one of schema (the
// text of a JSON schema) and choices (a list of texts): the form of the reply, as edgedec_request has it. The text is an
// object with prompt_tokens, reused_tokens and dropped_messages.
EDGEDEC_WEB_API int32_t edgedec_web_begin(edgedec_web* engine, const char* request, size_t size);

// Returns 1: a pass is wanted, see edgedec_web_pass_of; 0: what was begun is over, and the text is an object of its figures;
// -1: it failed, and the text is an error. A reply's figures have the names of `edgedec generate --json`: finish_reason
// ("stop", "length", "context", "loop", "interrupted"), prompt_tokens, reused_tokens, completion_tokens, dropped_messages,
// prefill_s, decode_s, passes, drafted_tokens, accepted_tokens; `pieces`, text that was held back until the end; `costs` where
// the reply corrected them, to be kept like those of edgedec_web_measure; and `notes`, lines about drafters that failed.
EDGEDEC_WEB_API int32_t edgedec_web_next(edgedec_web* engine);

// Where the pass that edgedec_web_next announced is described. The address is the same for the life of the engine; the
// arrays that it names are valid until edgedec_web_give.
EDGEDEC_WEB_API const edgedec_web_pass* edgedec_web_pass_of(edgedec_web* engine);

// The pass was computed in `seconds`, and its results are in their places. The text is a list of what was committed:
// [{"id": .., "text": .., "drafter": name or null, "seconds": since the beginning}, ..]; empty while a prompt is read. Where
// a reply to messages thinks first, that part is the `thought` of its tokens and not their `text`, and tags are in neither.
EDGEDEC_WEB_API int32_t edgedec_web_give(edgedec_web* engine, double seconds);

// Ends the reply: after the pass under way, or before the one that edgedec_web_next would announce.
EDGEDEC_WEB_API void edgedec_web_stop(edgedec_web* engine);

// Says that the KV cache is lost, as when a device is: a pass that was announced is taken back, and the next ones read
// all tokens again. Tokens stay as they are. Without a reply under way the next one reads its whole prompt.
EDGEDEC_WEB_API void edgedec_web_lost(edgedec_web* engine);

// Forgets the conversation, and empties the KV cache. EDGEDEC_USAGE while something is under way.
EDGEDEC_WEB_API int32_t edgedec_web_forget(edgedec_web* engine);

// Figures of the engine as JSON: the model, drafters with what they drafted and what was accepted.
EDGEDEC_WEB_API int32_t edgedec_web_stats(edgedec_web* engine);

// Ids of a text, as a JSON list; with the token that begins a text where the model has one.
EDGEDEC_WEB_API int32_t edgedec_web_encode(edgedec_web* engine, const char* text, size_t size);

// ---- Layers of the model that draft, where a device computes passes

// Says that the device peeks: `exits` is an object with the numbers of layers that it can run apart, as a list, ascending to all.
// Unless a conversation is under way, layers of the model that the option `draft` names draft from then on. The text is the
// facts of edgedec_web_open.
//
// A peek is computed within edgedec_web_next: `peek(engine)` is called, or where it is NULL in WebAssembly env.edgedec_peek, which
// may wait. It computes the pass at edgedec_web_pass_of, of which `above` is not 0, and returns 0, or another number if it fails;
// the drafter is off then. The tokens behind the `done` ones go through the layers `below`; `chosen` counts rows from the first
// of these on. Then they go on behind the layers `above`, with what left the layers `below`. The device keeps that of all T tokens:
// the next pass takes it for its `done` tokens, which go through the layers behind `below` alone.
EDGEDEC_WEB_API int32_t edgedec_web_peeks(edgedec_web* engine, const char* exits, size_t size, int32_t (*peek)(edgedec_web*));

// ---- Passes on the CPU

// Makes the engine ready to compute passes itself, with a KV cache of its own: reads cpu.json, which `edgedec export`
// makes of model.onnx, and uses weights.bin where it lies. The text is the facts of edgedec_web_open. Unless a conversation is
// under way, drafters with files draft from then on; a note says which cannot. It may follow edgedec_web_lost.
EDGEDEC_WEB_API int32_t edgedec_web_cpu(edgedec_web* engine);
// Computes the pass that was announced, its copies included, and writes the results. edgedec_web_give follows.
EDGEDEC_WEB_API int32_t edgedec_web_compute(edgedec_web* engine);
// Makes the calling thread a helper of edgedec_web_compute for as long as the module lives. It is for another instance of edgedec-fast.wasm over the same memory, on a thread of its own, with a
// stack of its own and __wasm_init_tls called. In other modules it returns at once.
EDGEDEC_WEB_API void edgedec_web_help(void);

// ---- Parts of a pass that belong on the host, because they use doubles

// RotaryTable (kernels/rotary_table): table[T][2 * half] for the positions of the announced pass; cosines, then sines.
EDGEDEC_WEB_API int32_t edgedec_web_rotary(edgedec_web* engine, const float* inv_freq, size_t half, float* table);

// The steps of recurrent layers whose convolution has `taps` (kernels/recurrent/list_steps.h) for the announced pass, of which
// states cover all but `behind` resident tokens: steps[behind + T][12].
EDGEDEC_WEB_API int32_t edgedec_web_steps(edgedec_web* engine, uint32_t behind, uint32_t taps, uint32_t* steps);

// Ends row `row` of HeadTopK (kernels/head_topk) of the announced pass, and writes its values, ids, logsumexp and entropy.
// sums[blocks][3]: maximum, sum and weighted sum of each block. ids, coarse [count]: the best logits, by descending value,
// then ascending id, `count` of them at most k. `fine`: their logits of two terms, or NULL where the head is not refined;
// `capped`: the softcap that these still need, 0 for none. Where the row's logits are in place, the fine ones replace theirs.
EDGEDEC_WEB_API int32_t edgedec_web_head(edgedec_web* engine, uint32_t row, const float* sums, size_t blocks,
                                         const int32_t* ids, const float* coarse, const float* fine, size_t count,
                                         float capped);

#ifdef __cplusplus
}
#endif

#endif  // EDGEDEC_WEB_H_
