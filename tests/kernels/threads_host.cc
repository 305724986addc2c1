// Calls of edgedec.h from several threads, to run with ThreadSanitizer: replies that others interrupt and disturb, engines
// beside each other over one folder, engines that pass from thread to thread. Prints what happened, for the test to judge.
// Arguments: the library, ONNX Runtime's library, the folder of a bundle, a folder to write into, and "race" to have a race.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "engine/edgedec.h"

namespace {

constexpr int kReplies = 12, kEngines = 2;
constexpr char kText[] =
    "hello world hello world and the world is of a thing that is the world hello world hello world and the world is of a thing "
    "that is the world hello world hello world and the world is of a thing that is the world hello world hello";

void* library;
const char *runtime, *bundle;
std::string scratch;

template <class Function>
Function* find(const char* name) {
  auto* found = reinterpret_cast<Function*>(dlsym(library, name));
  if (!found) std::fprintf(stderr, "no %s\n", name), std::exit(1);
  return found;
}
#define CALL(name) find<decltype(name)>(#name)

void check(int code, const edgedec_status& status) {
  if (code != EDGEDEC_OK) std::fprintf(stderr, "%s (%s)\n", status.message, status.hint), std::exit(1);
}

edgedec_engine* open(const char* draft, edgedec_kv kv) {
  edgedec_options options;
  CALL(edgedec_options_init)(&options);
  const std::string costs = scratch + "/costs";
  options.runtime_path = runtime;
  options.threads = 2;
  options.context = 256;
  options.draft = draft;
  options.kv = kv;
  options.cost_folder = costs.c_str();
  edgedec_engine* engine = nullptr;
  edgedec_status status{};
  check(CALL(edgedec_open)(bundle, &options, &engine, &status), status);
  return engine;
}

struct Answer {
  std::vector<int32_t> tokens;
  std::atomic<int>* told = nullptr;
  edgedec_result result{};
};

// Replies; a call that comes while another thread's runs is made again. `seed` 0: greedy.
void reply(edgedec_engine* engine, unsigned seed, uint32_t tokens, Answer* answer) {
  edgedec_sampling sampling;
  CALL(edgedec_sampling_init)(&sampling);
  sampling.temperature = seed ? 0.9 : 0.0;
  sampling.seed = seed;
  edgedec_request request;
  CALL(edgedec_request_init)(&request);
  request.max_tokens = tokens;
  request.sampling = &sampling;
  request.user = answer;
  request.on_token = [](void* user, const edgedec_token* token) {
    auto* heard = static_cast<Answer*>(user);
    if (token->id >= 0) heard->tokens.push_back(token->id);
    if (heard->told) ++*heard->told;
    return 0;
  };
  answer->result.size = sizeof answer->result;
  edgedec_status status{};
  int code;
  while ((code = CALL(edgedec_complete)(engine, kText, sizeof kText - 1, &request, &answer->result, &status)) == EDGEDEC_USAGE)
    std::this_thread::yield();
  check(code, status);
}

// Uses an engine of its own for everything; returns all its tokens.
std::vector<int32_t> live(int number) {
  edgedec_engine* engine = open("lookup,recycling", EDGEDEC_KV_FP16);
  const std::string talk = scratch + "/talk" + std::to_string(number);
  edgedec_status status{};
  std::vector<int32_t> all;
  for (unsigned seed = 0; seed < 3; ++seed) {
    Answer answer;
    reply(engine, seed, 40, &answer);
    all.insert(all.end(), answer.tokens.begin(), answer.tokens.end());
    char* json = nullptr;
    check(CALL(edgedec_stats)(engine, &json, &status), status);
    CALL(edgedec_free)(json);
    check(CALL(edgedec_save)(engine, talk.c_str(), &status), status);
    check(CALL(edgedec_restore)(engine, talk.c_str(), &status), status);
  }
  check(CALL(edgedec_measure_again)(engine, &status), status);
  CALL(edgedec_close)(engine);
  return all;
}

void engines_beside_each_other() {
  std::vector<int32_t> tokens[kEngines];
  std::vector<std::thread> threads;
  for (int at = 0; at < kEngines; ++at) threads.emplace_back([&, at] { tokens[at] = live(at); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& one : tokens)
    if (one != tokens[0] || one.empty()) std::fprintf(stderr, "the engines said different things\n"), std::exit(1);
  std::printf("%d engines, %zu tokens\n", kEngines, tokens[0].size());
}

// One thread replies, one stops it after some tokens, one makes calls that come between.
void a_disturbed_engine() {
  edgedec_engine* engine = open("lookup", EDGEDEC_KV_INT8);
  std::atomic<int> told{0}, refused{0}, answered{0};
  std::atomic<bool> over{false};
  std::thread stopper([&] {
    for (int seen = 0; !over; std::this_thread::yield())
      if (told >= seen + 5) CALL(edgedec_stop)(engine), seen = told;
  });
  std::thread disturber([&] {
    while (!over) {
      char* json = nullptr;
      edgedec_status status{};
      const int code = CALL(edgedec_stats)(engine, &json, &status);
      ++(code == EDGEDEC_OK ? answered : refused);
      CALL(edgedec_free)(json);
      size_t count;
      CALL(edgedec_encode)(engine, kText, sizeof kText - 1, 1, nullptr, 0, &count, &status);
    }
  });
  int stopped = 0;
  for (int at = 0; at < kReplies; ++at) {
    Answer answer;
    answer.told = &told;
    reply(engine, static_cast<unsigned>(at), 100, &answer);
    stopped += answer.result.finish == EDGEDEC_FINISH_INTERRUPTED;
  }
  over = true;
  stopper.join();
  disturber.join();
  std::thread([&] { CALL(edgedec_close)(engine); }).join();
  std::printf("%d replies, %d stopped, calls %s and %s\n", kReplies, stopped, refused ? "refused" : "none refused",
              answered ? "answered" : "none answered");
}

// Calls of a function that is documented as not for several threads.
void a_race() {
  const auto set = find<void(int)>("edgedec_set_threads");
  std::thread other([=] { set(2); });
  set(3);
  other.join();
}

}  // namespace

int main(int count, char** argument) {
  if (count < 5) return 2;
  library = dlopen(argument[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) std::fprintf(stderr, "%s\n", dlerror()), std::exit(1);
  runtime = argument[2];
  bundle = argument[3];
  scratch = argument[4];
  if (count > 5) {
    a_race();
    return 0;
  }
  engines_beside_each_other();
  a_disturbed_engine();
  return 0;
}
