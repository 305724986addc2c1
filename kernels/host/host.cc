// Runs a bundle in a process that has no Python: `edgedec_host BUNDLE RUNTIME THREADS CONTEXT MEMORY [KV]`. `edgedec bench`
// starts it. MEMORY is the budget in bytes, 0 for none; KV an edgedec_kv, fp16 without it.
//
// A line of input is "MOST ID ID ...": a prompt, and the tokens to decode after it. A line of output is JSON: the figures
// of edgedec_stats once the model is open, then the times and tokens of each prompt, or an error.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/edgedec.h"

namespace {

// Passes over so many tokens touch the weights before anything is timed.
constexpr size_t kWarmUpTokens = 16;

struct Reply {
  int32_t* ids;  // the prompt, and room behind it
  size_t prompt;
  size_t count;
  double first_s;
  double decode_s;
};

int hear(void* user, const edgedec_token* token) {
  auto* reply = static_cast<Reply*>(user);
  if (token->id >= 0) reply->ids[reply->prompt + reply->count++] = token->id;
  return 0;
}

// Continues by `most` tokens. A token that ends a text does not end this: the next call goes on behind it.
int continue_by(edgedec_engine* engine, size_t most, Reply* reply, edgedec_status* status) {
  edgedec_sampling greedy;
  edgedec_sampling_init(&greedy);
  edgedec_request request;
  edgedec_request_init(&request);
  request.sampling = &greedy;
  request.on_token = hear;
  request.user = reply;
  reply->count = 0;
  reply->decode_s = 0;
  while (reply->count < most) {
    const size_t before = reply->count;
    edgedec_result result;
    result.size = sizeof(result);
    request.max_tokens = static_cast<uint32_t>(most - before);
    if (int code = edgedec_generate(engine, reply->ids, reply->prompt + before, &request, &result, status)) return code;
    if (reply->count == before) return EDGEDEC_CONTEXT_FULL;
    if (before) reply->decode_s += result.first_token_s;
    else reply->first_s = result.first_token_s;
    reply->decode_s += result.decode_s;
  }
  return EDGEDEC_OK;
}

// Leaves nothing in the KV cache that a prompt could begin with.
int forget(edgedec_engine* engine, int32_t first, edgedec_status* status) {
  int32_t ids[kWarmUpTokens + 1];
  for (int32_t& id : ids) id = first == 0;
  Reply other{ids, kWarmUpTokens, 0, 0, 0};
  return continue_by(engine, 1, &other, status);
}

int fail(const edgedec_status& status) {
  fprintf(stderr, "%s%s%s\n", status.message, *status.hint ? "; " : "", status.hint);
  return status.code;
}

int show_stats(edgedec_engine* engine, edgedec_status* status) {
  char* json = nullptr;
  if (int code = edgedec_stats(engine, &json, status)) return code;
  printf("%s\n", json);
  edgedec_free(json);
  return fflush(stdout);
}

// Answers one line of input, which holds at most half as many numbers as characters.
int answer(edgedec_engine* engine, char* line, edgedec_status* status) {
  const size_t most = strtoul(line, &line, 10);
  auto* ids = static_cast<int32_t*>(malloc((strlen(line) / 2 + 1 + most) * sizeof(int32_t)));
  if (ids == nullptr) return EDGEDEC_NO_MEMORY;
  Reply reply{ids, 0, 0, 0, 0};
  for (char* end = line;; line = end) {
    const long id = strtol(line, &end, 10);
    if (end == line) break;
    ids[reply.prompt++] = static_cast<int32_t>(id);
  }
  int code = forget(engine, reply.prompt ? ids[0] : 0, status);
  if (!code) code = continue_by(engine, most, &reply, status);
  if (!code) {
    printf("{\"prefill_s\": %.9f, \"decode_s\": %.9f, \"tokens\": [", reply.first_s, reply.decode_s);
    for (size_t at = 0; at < most; ++at) printf(at ? ", %d" : "%d", ids[reply.prompt + at]);
    printf("]}\n");
    fflush(stdout);
  }
  free(ids);
  return code;
}

}  // namespace

int main(int count, char** words) {
  edgedec_options options;
  edgedec_options_init(&options);
  edgedec_status status = {EDGEDEC_USAGE, "usage: edgedec_host BUNDLE RUNTIME THREADS CONTEXT MEMORY [KV]", ""};
  if (count != 6 && count != 7) return fail(status);
  options.runtime_path = words[2];
  options.threads = static_cast<uint32_t>(strtoul(words[3], nullptr, 10));
  options.context = static_cast<uint32_t>(strtoul(words[4], nullptr, 10));
  options.memory = strtoull(words[5], nullptr, 10);
  if (count == 7) options.kv = atoi(words[6]);
  options.draft = "off";
  edgedec_engine* engine = nullptr;
  if (edgedec_open(words[1], &options, &engine, &status)) return fail(status);
  char* line = nullptr;
  size_t room = 0;
  int code = forget(engine, 0, &status);
  if (!code) code = show_stats(engine, &status);
  while (!code && getline(&line, &room, stdin) > 0)
    if (!(code = answer(engine, line, &status))) code = show_stats(engine, &status);
  free(line);
  edgedec_close(engine);
  return code ? fail(status) : 0;
}
