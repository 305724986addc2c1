// Replies through edgedec.h, of whichever build of the library: prints the ids of a greedy and of a drawn reply.
// Arguments: the library, ONNX Runtime's library, the folder of a model, the number of tokens, a question.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "engine/edgedec.h"

namespace {

template <class Function>
Function* find(void* library, const char* name) {
  auto* found = reinterpret_cast<Function*>(dlsym(library, name));
  if (!found) std::fprintf(stderr, "no %s\n", name), std::exit(1);
  return found;
}

void check(int code, const edgedec_status& status) {
  if (code != EDGEDEC_OK) std::fprintf(stderr, "%s (%s)\n", status.message, status.hint), std::exit(1);
}

int show(void*, const edgedec_token* token) {
  if (token->id >= 0) std::printf(" %d", static_cast<int>(token->id));
  return 0;
}

}  // namespace

int main(int count, char** argument) {
  if (count != 6) return 2;
  void* library = dlopen(argument[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) std::fprintf(stderr, "%s\n", dlerror()), std::exit(1);
#define FIND(name) auto* const name##_ = find<decltype(name)>(library, #name)
  FIND(edgedec_options_init);
  FIND(edgedec_request_init);
  FIND(edgedec_sampling_init);
  FIND(edgedec_open);
  FIND(edgedec_reply);
  FIND(edgedec_close);
#undef FIND
  edgedec_options options;
  edgedec_options_init_(&options);
  options.runtime_path = argument[2];
  options.context = 256;
  edgedec_engine* engine = nullptr;
  edgedec_status status{};
  check(edgedec_open_(argument[3], &options, &engine, &status), status);
  const edgedec_message message = {"user", argument[5]};
  const double temperatures[] = {0.0, 0.9};
  for (double temperature : temperatures) {
    edgedec_sampling sampling;
    edgedec_sampling_init_(&sampling);
    sampling.temperature = temperature;
    sampling.top_k = 40;
    sampling.seed = 11;
    edgedec_request request;
    edgedec_request_init_(&request);
    request.max_tokens = static_cast<uint32_t>(std::atoi(argument[4]));
    request.sampling = &sampling;
    request.on_token = show;
    edgedec_result result{};
    result.size = sizeof result;
    std::printf("tokens");
    check(edgedec_reply_(engine, &message, 1, &request, &result, &status), status);
    std::printf("\n");
    std::fprintf(stderr, "%u tokens, %u passes, %u of %u drafts right\n", result.tokens, result.passes,
                 result.accepted_tokens, result.drafted_tokens);
  }
  edgedec_close_(engine);
  return 0;
}
