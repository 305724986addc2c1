// The engine of an app in functions with plain arguments, which tests/android/arm_engine.py calls through
// tests/kernels/arm_driver.cc. Structs come as bytes: they are laid out alike on both machines. Pointers in them are set
// here. A list of texts is one text after the other, each with a zero byte behind it.
#include <dlfcn.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/edgedec.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

void* library = nullptr;
std::string runtime, answer;
edgedec_engine* engine = nullptr;

template <class Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

#define CALL(name) find<decltype(name)>(#name)

std::vector<const char*> list_of(const char* texts, size_t count) {
  std::vector<const char*> all;
  for (; all.size() < count; texts += std::strlen(texts) + 1) all.push_back(texts);
  return all;
}

// Tokens and text that the callback of a reply heard. `tokens` and `text` have the room of the whole context.
struct Heard {
  int32_t* tokens;
  char* text;
  int64_t* counts;  // tokens, bytes of text, tokens that were drafted
  int64_t cancel;   // the tokens after which the next piece of text interrupts the reply; -1: none does
};

int hear(void* user, const edgedec_token* token) {
  Heard& heard = *static_cast<Heard*>(user);
  std::memcpy(heard.text + heard.counts[1], token->text, token->text_size);
  heard.counts[1] += static_cast<int64_t>(token->text_size);
  if (token->id >= 0) {
    heard.tokens[heard.counts[0]++] = token->id;
    heard.counts[2] += token->drafted != 0;
  }
  return token->text_size && heard.cancel >= 0 && heard.counts[0] >= heard.cancel;
}

}  // namespace

// Returns null, or what went wrong. `pass_ns` goes to the clock of tests/kernels/test_android.py, which only the library
// of the app has: it looks for names in its own libraries first.
EXPORT const char* edgedec_calls_load(const char* path, const char* runtime_path, int64_t pass_ns) {
  runtime = runtime_path;
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!library) return dlerror();
  *static_cast<long*>(dlsym(dlopen("libc.so", RTLD_NOW | RTLD_NOLOAD), "pass_ns")) = pass_ns;
  return nullptr;
}

EXPORT int edgedec_calls_open(const char* folder, const edgedec_options* given, const char* draft,
                              edgedec_status* status) {
  edgedec_options options = *given;
  options.runtime_path = runtime.c_str();
  options.draft = draft;
  CALL(edgedec_close)(engine);
  return CALL(edgedec_open)(folder, &options, &engine, status);
}

// Replies to `count` messages of the user and the assistant in turn; of none: continues `texts`, of `size` bytes.
EXPORT int edgedec_calls_reply(const char* texts, size_t size, size_t count, const edgedec_request* asked,
                               const edgedec_sampling* sampling, const int32_t* bias_tokens, const double* bias_values,
                               const char* stops, const char* schema, const char* choices, int64_t cancel,
                               int32_t* tokens, char* text, int64_t* counts, edgedec_result* result,
                               edgedec_status* status) {
  edgedec_sampling drawn = *sampling;
  drawn.bias_tokens = bias_tokens;
  drawn.bias_values = bias_values;
  edgedec_request request = *asked;
  const std::vector<const char*> ends = list_of(stops, request.stop_count);
  const std::vector<const char*> texts_of_choices = list_of(choices, request.choice_count);
  Heard heard{tokens, text, counts, cancel};
  request.sampling = &drawn;
  request.stops = ends.data();
  request.schema = *schema ? schema : nullptr;
  request.choices = texts_of_choices.data();
  request.on_token = hear;
  request.user = &heard;
  result->size = sizeof *result;
  if (!count) return CALL(edgedec_complete)(engine, texts, size, &request, result, status);
  std::vector<edgedec_message> messages;
  for (const char* content : list_of(texts, count))
    messages.push_back({messages.size() % 2 ? "assistant" : "user", content});
  return CALL(edgedec_reply)(engine, messages.data(), messages.size(), &request, result, status);
}

EXPORT int edgedec_calls_encode(const char* text, size_t size, int32_t specials, int32_t* tokens, size_t room,
                                size_t* count, edgedec_status* status) {
  return CALL(edgedec_encode)(engine, text, size, specials, tokens, room, count, status);
}

EXPORT int edgedec_calls_decode(const int32_t* tokens, size_t count, char* text, size_t room, size_t* size,
                                edgedec_status* status) {
  return CALL(edgedec_decode)(engine, tokens, count, text, room, size, status);
}

// Returns the engine's figures as JSON; null where it has none.
EXPORT const char* edgedec_calls_stats() {
  char* json = nullptr;
  edgedec_status status;
  if (CALL(edgedec_stats)(engine, &json, &status)) return nullptr;
  answer = json;
  CALL(edgedec_free)(json);
  return answer.c_str();
}
