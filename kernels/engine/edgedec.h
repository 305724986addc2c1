// EdgeDec in C: text generation on the device, with drafts that change the speed of a reply and never its tokens.
//
//     edgedec_options options;
//     edgedec_options_init(&options);
//     options.memory = 600000000;
//     edgedec_engine* engine = NULL;
//     edgedec_status status;
//     if (edgedec_open("/data/smollm2-135m", &options, &engine, &status) != EDGEDEC_OK) fail(status.message, status.hint);
//     edgedec_message ask = {"user", "What is 2+2?"};
//     edgedec_request request;
//     edgedec_request_init(&request);
//     request.on_token = show;  // gets the text piece by piece
//     edgedec_result result;
//     edgedec_reply(engine, &ask, 1, &request, &result, &status);
//     edgedec_close(engine);
//
// Errors. Every call that can fail returns an edgedec_code and, where `status` is not NULL, fills it. Nothing is thrown.
// After an error the engine is as before the call, and the next call may succeed.
// Threads. One thread at a time uses an engine, any thread. Only edgedec_stop is for other threads; every other call
// that comes while one is running is refused with EDGEDEC_USAGE. Several engines are independent of each other.
// Memory. A call allocates nothing for its caller but texts that it returns through a `char**`: edgedec_free frees them.
// Memory that is handed in stays the caller's and is not kept beyond the call; exceptions say so.
// Text is UTF-8. Bytes that are not count as U+FFFD, as in Python's errors="replace".
// Structs with a `size` grow at their end in later versions. edgedec_*_init sets `size` and every default.
#ifndef EDGEDEC_H_
#define EDGEDEC_H_

#include <stddef.h>
#include <stdint.h>

#if !defined(_WIN32)
#define EDGEDEC_API __attribute__((visibility("default")))
#elif defined(EDGEDEC_BUILDING)
#define EDGEDEC_API __declspec(dllexport)
#else
#define EDGEDEC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The outcome of a call. The numbers are the exit codes of the edgedec command.
typedef enum edgedec_code {
  EDGEDEC_OK = 0,
  EDGEDEC_USAGE = 2,           // an argument is wrong, or a call came while another was running
  EDGEDEC_NOT_FOUND = 3,       // a folder, file or drafter that does not exist
  EDGEDEC_BAD_FILE = 4,        // a file is truncated, hostile, or fails its hash
  EDGEDEC_UNSUPPORTED = 5,     // this engine does not have it
  EDGEDEC_STORAGE = 7,         // disk full, no permission
  EDGEDEC_CONTEXT_FULL = 8,    // prompt or reply does not fit the context
  EDGEDEC_BACKEND = 9,         // ONNX Runtime is missing or refused to work
  EDGEDEC_MEMORY_BUDGET = 10,  // it does not fit the memory that it may take
  EDGEDEC_NO_MEMORY = 11,      // the system gives no more memory
} edgedec_code;

// A failure in words for people: `message` says what is wrong, `hint` how to mend it. Both are one line, end with a zero
// byte and may be empty; after EDGEDEC_OK they are.
typedef struct edgedec_status {
  int32_t code;  // edgedec_code
  char message[1024];
  char hint[1024];
} edgedec_status;

// An open model with its KV cache.
typedef struct edgedec_engine edgedec_engine;

// Number format of keys and values in the KV cache.
typedef enum edgedec_kv {
  EDGEDEC_KV_FP16 = 0,
  EDGEDEC_KV_INT8 = 1,  // about half the memory; replies may differ from those of fp16
} edgedec_kv;

// The way a model runs. All texts are copied.
typedef struct edgedec_options {
  uint32_t size;
  uint32_t threads;          // compute threads; 0: one per physical core, on phones one per fast core
  uint32_t context;          // tokens of the KV cache; 0: the model's limit, at most 4096, less under a tight `memory`
  int32_t kv;                // edgedec_kv
  uint64_t memory;           // the most bytes of the whole process; 0: no limit
  const char* draft;         // drafters by comma: "auto" (also NULL), "off", "lookup", "recycling", "exit", "exit-12", "skip-8-16", "head",
                             // "mtp", "assistant", and a small model: the folder of its bundle, or the name of one that this folder carries
  uint32_t draft_tokens;     // the most tokens drafted for one pass; 0: the default, 15
  int32_t verify;            // not 0: check the SHA-256 of every file, which reads all of them
  const char* runtime_path;  // ONNX Runtime's shared library; NULL: the one that the process has, or the system finds
  const void* runtime_api;   // an `const OrtApiBase*` in place of runtime_path; NULL: none
  const char* cost_folder;   // where measured pass costs are kept between starts; NULL: they are measured at each open
  const char* tables_folder; // folder of prepared tables of drafters for this model (kind "tables"); NULL: none
  void (*notice)(void* user, const char* line);  // hears lines for the user while it opens; NULL: nobody
  void* notice_user;
} edgedec_options;

// How tokens are drawn. Values and their order of effect are those of edgedec.SamplingParams.
typedef struct edgedec_sampling {
  uint32_t size;
  uint32_t bias_count;         // entries of bias_tokens and bias_values
  uint64_t seed;               // the same seed, text and settings give the same tokens
  double temperature;          // 0: greedy
  int64_t top_k;               // 0: off
  double top_p;                // 1: off
  double min_p;                // 0: off
  double top_n_sigma;          // 0: off
  double typical;              // 1: off
  double eta;                  // 0: off
  double top_h;                // 1: off
  double edt;                  // 0: off
  double mirostat;             // 0: off
  double mirostat_eta;         // step size of mirostat, 0.1
  double repetition_penalty;   // 1: off
  double frequency_penalty;    // 0: off
  double presence_penalty;     // 0: off
  const int32_t* bias_tokens;  // ids, ascending, without repeats
  const double* bias_values;   // from -100 to 100, added to logits; -100 bans the token
} edgedec_sampling;

// One token of a reply, as a callback gets it. The pointers are valid during the callback.
typedef struct edgedec_token {
  int32_t id;           // -1: no token; `text` is what was held back until the end
  int32_t drafted;      // whether it was drafted, and the draft was right
  const char* text;     // the text that this token completes: whole characters, perhaps none; zero byte behind it
  size_t text_size;     // its bytes
  const char* drafter;  // name of the drafter, such as "lookup"; NULL: the model itself
  double seconds;       // since the call began
  const char* thought;  // text of the thinking part in front of the answer, where edgedec_reply or edgedec_more has one; it
  size_t thought_size;  // is not in `text`, and its tags are in neither
} edgedec_token;

// Hears each token of a reply as it is committed. Not 0: the reply ends, as if edgedec_stop had been called; tokens of
// the same pass that were not told yet are left out.
typedef int (*edgedec_on_token)(void* user, const edgedec_token* token);
// Hears how much of the prompt is read: `done` of `total` tokens. Not 0: the reply ends before its first token.
typedef int (*edgedec_on_prompt)(void* user, size_t done, size_t total);

// A call of a tool that a reply asks for, as a callback gets it. The pointers are valid during the callback.
typedef struct edgedec_call {
  const char* id;         // which a message of role "tool" names as its tool_call_id
  const char* name;       // the function
  const char* arguments;  // a JSON object; what there is of it where the reply was cut
} edgedec_call;

// Hears each call of a reply at its end, behind all tokens.
typedef void (*edgedec_on_call)(void* user, const edgedec_call* call);

// Settings of a reply, beside its prompt.
//
// With a schema or choices only tokens that the form allows are drawn, and the reply ends where nothing may follow; an end
// token is allowed where it is whole. EDGEDEC_USAGE: the form cannot be used, and the message names the keyword and its place.
// A reply that max_tokens, the context or a stop string cuts is the beginning of one: edgedec_more with the same form goes on.
// Drafts change no token here either.
//
// With tools the calls of a reply to a conversation are not in its text; edgedec_more with the same tools goes on. Arguments are
// as the model wrote them: check them against the function's schema. EDGEDEC_UNSUPPORTED: the chat template knows no tools or needs
// a construct that is not known, the form of the model's calls is not read here, a tool is strict, or there is a form as well.
typedef struct edgedec_request {
  uint32_t size;
  uint32_t max_tokens;               // 0: as far as the context reaches; loops are then cut
  const edgedec_sampling* sampling;  // NULL: the model's preset, see edgedec_sampling_of
  const char* const* stops;          // strings that end the reply, beside those of the preset; they are not shown
  size_t stop_count;
  edgedec_on_token on_token;         // NULL: nobody hears tokens
  edgedec_on_prompt on_prompt;       // NULL: nobody hears of the prompt
  void* user;                        // handed to both
  const char* schema;                // a JSON schema: the reply is JSON of it; {"type": "object"}: any object. NULL: none
  const char* const* choices;        // texts: the reply is exactly one of them; beside them there is no schema
  size_t choice_count;
  const char* tools;                 // functions that edgedec_reply may ask for: a JSON list in OpenAI's form. NULL: none
  edgedec_on_call on_call;           // NULL: nobody hears of calls
  const char* messages;              // of edgedec_reply: the conversation as a JSON list in OpenAI's form, with tool_calls and messages
                                     // of role "tool", in place of edgedec_message. NULL: it is handed in there
} edgedec_request;

// Why a reply ended.
typedef enum edgedec_finish {
  EDGEDEC_FINISH_STOP = 1,         // an end token or a stop string
  EDGEDEC_FINISH_LENGTH = 2,       // max_tokens
  EDGEDEC_FINISH_CONTEXT = 3,      // the context is full
  EDGEDEC_FINISH_LOOP = 4,         // without max_tokens: one piece of text came over and over
  EDGEDEC_FINISH_INTERRUPTED = 5,  // edgedec_stop, or a callback
} edgedec_finish;

// The figures of a reply. A call that fails fills none of it.
typedef struct edgedec_result {
  uint32_t size;              // set by the caller: sizeof(edgedec_result)
  int32_t finish;             // edgedec_finish
  uint32_t prompt_tokens;
  uint32_t reused_tokens;     // of the prompt: they were in the KV cache already
  uint32_t tokens;            // of the reply, the end token included
  uint32_t passes;            // over the model for these tokens
  uint32_t drafted_tokens;    // fed to these passes
  uint32_t accepted_tokens;   // of those
  uint32_t dropped_messages;  // the oldest ones after the system message, left out because the context is full
  uint32_t calls;             // of tools that it asks for
  double first_token_s;       // seconds from the call to its first token
  double decode_s;            // seconds from the first token to the last one
} edgedec_result;

// A message of a conversation. Roles: "system" (only the first one), "user", "assistant", "tool". A zero byte ends each text.
// Calls of tools, and the results that name them, are handed in as JSON: `messages` of edgedec_request.
typedef struct edgedec_message {
  const char* role;
  const char* content;
} edgedec_message;

// The version of the library, such as "0.1.0". Lives as long as the library.
EDGEDEC_API const char* edgedec_version(void);

// Frees a text that a call returned through a `char**`. NULL is fine.
EDGEDEC_API void edgedec_free(char* text);

// Set `size` and every default.
EDGEDEC_API void edgedec_options_init(edgedec_options* options);
EDGEDEC_API void edgedec_sampling_init(edgedec_sampling* sampling);  // all off: greedy
EDGEDEC_API void edgedec_request_init(edgedec_request* request);

// Says what would run in `folder` with these options: the memory plan as JSON, without a KV cache, with the
// keys of `edgedec plan --json`. EDGEDEC_MEMORY_BUDGET: it does not fit; the hint says what would.
EDGEDEC_API edgedec_code edgedec_plan(const char* folder, const edgedec_options* options, char** json,
                                      edgedec_status* status);

// Opens the bundle in `folder`: a folder with a manifest.json, as `edgedec export` and `edgedec pull` make it. The folder
// must stay as it is until the engine is closed, because weights are mapped from it. Where pass costs are not known yet,
// it measures them, which takes some seconds. `options` may be NULL. Sets `*engine` to NULL on an error.
EDGEDEC_API edgedec_code edgedec_open(const char* folder, const edgedec_options* options, edgedec_engine** engine,
                                      edgedec_status* status);

// Gives back all that the engine holds. NULL is fine. No call may be running.
EDGEDEC_API void edgedec_close(edgedec_engine* engine);

// Writes the sampling values of the model's preset. The pointers in it are NULL.
EDGEDEC_API edgedec_code edgedec_sampling_of(edgedec_engine* engine, edgedec_sampling* sampling, edgedec_status* status);

// Turns text into token ids, with the token that begins a text where the model has one. Control tokens in the text are
// recognised when `specials` is not 0, as edgedec_complete feeds them; with 0 they are spelt. Writes at most `room` ids and
// sets `*count` to how many there are, so that a call with room 0 asks how much room it takes.
EDGEDEC_API edgedec_code edgedec_encode(edgedec_engine* engine, const char* text, size_t text_size, int32_t specials,
                                        int32_t* tokens, size_t room, size_t* count, edgedec_status* status);

// Turns token ids into text, without control tokens. Writes at most `room` bytes without a zero byte behind them, and
// sets `*text_size` to how many there are.
EDGEDEC_API edgedec_code edgedec_decode(edgedec_engine* engine, const int32_t* tokens, size_t count, char* text,
                                        size_t room, size_t* text_size, edgedec_status* status);

// Replies to a conversation through the model's chat template. The last message is the user's, or a tool's. Without a system message
// the model's own preset has one; a first message "system" with empty content means none. Where the conversation is
// too long for the context, the oldest turns are left out. The part that the KV cache holds is not read
// again, so handing in the whole conversation each time costs only its new part. `request` and `result` may be NULL.
// For a model without a chat template the contents are text to continue, one below the other. Earlier replies are handed in
// without their thinking parts, as the makers of such models ask.
EDGEDEC_API edgedec_code edgedec_reply(edgedec_engine* engine, const edgedec_message* messages, size_t count,
                                       const edgedec_request* request, edgedec_result* result, edgedec_status* status);

// Continues the latest reply of edgedec_reply, also a restored one, where a limit, the context or a stop cut it: as if it
// had not been cut. Its tokens are those that a longer reply would have had, if `request` has the sampling of that one.
// Text and figures are those of the new part. Where the context is full, the oldest turns are left out first.
// EDGEDEC_USAGE: there is no such reply, or it ended by itself. EDGEDEC_CONTEXT_FULL: its own turn fills the context.
EDGEDEC_API edgedec_code edgedec_more(edgedec_engine* engine, const edgedec_request* request, edgedec_result* result,
                                      edgedec_status* status);

// Continues a text as it stands, without the chat template. Control tokens in it are recognised: of a text from someone
// else, edgedec_encode with `specials` 0 and edgedec_generate.
EDGEDEC_API edgedec_code edgedec_complete(edgedec_engine* engine, const char* text, size_t text_size,
                                          const edgedec_request* request, edgedec_result* result,
                                          edgedec_status* status);

// Continues token ids. Tokens that end a text for this model end the reply.
EDGEDEC_API edgedec_code edgedec_generate(edgedec_engine* engine, const int32_t* prompt, size_t count,
                                          const edgedec_request* request, edgedec_result* result,
                                          edgedec_status* status);

// Ends the reply that is being computed, after the pass in progress; the call that computes it returns EDGEDEC_OK with
// EDGEDEC_FINISH_INTERRUPTED. Safe from any thread, as often as wanted. Without a reply in progress it does nothing: a
// program that may stop before the call has begun has its callbacks return 1. NULL is fine.
EDGEDEC_API void edgedec_stop(edgedec_engine* engine);

// Returns figures as JSON: the model, the kernels in use, memory by part with budget and peak, drafters with what they
// drafted and what was accepted, and under "reply" the latest reply. Keys are those of `edgedec generate --json`, where
// that has them.
EDGEDEC_API edgedec_code edgedec_stats(edgedec_engine* engine, char** json, edgedec_status* status);

// Forgets the pass costs, also those in `cost_folder`, and measures them again: for a phone that became slower or
// faster for good, as when it is hot. Empties the KV cache, which the next reply fills again.
EDGEDEC_API edgedec_code edgedec_measure_again(edgedec_engine* engine, edgedec_status* status);

// Writes the tokens of the latest reply with its prompt, and their KV cache, to a file: completely or not at all.
EDGEDEC_API edgedec_code edgedec_save(edgedec_engine* engine, const char* path, edgedec_status* status);

// Reads such a file of the same model and kind of KV cache. The next prompt that begins with these tokens goes on from
// there. On an error the engine has an empty KV cache.
EDGEDEC_API edgedec_code edgedec_restore(edgedec_engine* engine, const char* path, edgedec_status* status);

#ifdef __cplusplus
}
#endif

#endif  // EDGEDEC_H_
