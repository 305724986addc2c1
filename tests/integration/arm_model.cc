// One session of ONNX Runtime for Arm with EdgeDec's ops, for tests/integration/test_arm_model.py, which calls these
// functions through tests/kernels/arm_driver.cc. Each returns null, or what went wrong.
#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "ort/ort_api.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace edgedec::ort;

Api api;
OrtSession* session = nullptr;
const char* (*row)() = nullptr;
const OrtMemoryInfo* memory = nullptr;
std::string message;

const char* text_of(OrtStatus* status) {
  message = api.GetErrorMessage()(status);
  api.ReleaseStatus()(status);
  return message.c_str();
}

#define TRY(FUNCTION, ...) \
  if (OrtStatus* status = api.FUNCTION()(__VA_ARGS__)) return text_of(status)

using Shape = std::vector<int64_t>;

// Values over the caller's memory, released together.
class Values {
 public:
  ~Values() {
    for (OrtValue* v : all) api.ReleaseValue()(v);
  }

  const char* add(void* data, size_t element, int type, const Shape& shape) {
    size_t bytes = element;
    for (int64_t n : shape) bytes *= static_cast<size_t>(n);
    OrtValue* value = nullptr;
    TRY(CreateTensorWithDataAsOrtValue, memory, data, bytes, shape.data(), shape.size(), type, &value);
    all.push_back(value);
    return nullptr;
  }

  std::vector<OrtValue*> all;
};

}  // namespace

EXPORT const char* edgedec_model_open(const char* runtime, const char* kernels, const char* model, int threads) {
  void* library = dlopen(runtime, RTLD_NOW | RTLD_GLOBAL);
  if (!library) return dlerror();
  const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  api.table = base ? base()->GetApi(kApiVersion) : nullptr;
  if (!api.table) return "the runtime does not have this version of the API";
  OrtEnv* env = nullptr;
  OrtSessionOptions* options = nullptr;
  OrtAllocator* allocator = nullptr;
  void* handle = nullptr;
  TRY(CreateEnv, 3, "edgedec", &env);
  TRY(CreateSessionOptions, &options);
  TRY(SetSessionGraphOptimizationLevel, options, 0);
  TRY(SetIntraOpNumThreads, options, threads);
  TRY(RegisterCustomOpsLibrary, options, kernels, &handle);
  TRY(CreateSession, env, model, options, &session);
  TRY(GetAllocatorWithDefaultOptions, &allocator);
  TRY(AllocatorGetInfo, allocator, &memory);
  row = reinterpret_cast<const char* (*)()>(dlsym(handle, "edgedec_selected_isa"));
  return nullptr;
}

// The kernel row that the session's ops run.
EXPORT const char* edgedec_model_row() { return row ? row() : nullptr; }

// sizes: tokens, rows, k, rows of logits, vocabulary, then the five of the cache, and of the rings (of 0 layers where the
// graph has none). All arrays are the caller's.
EXPORT const char* edgedec_model_run(const int64_t* sizes, int64_t* tokens, int64_t* positions, int64_t* parents,
                                     int64_t* length, int64_t* rows, int64_t* want_logits, uint16_t* kv_cache,
                                     float* temperature, uint16_t* kv_window, float* values, int32_t* ids, float* logsumexp,
                                     float* entropy, float* logits) {
  const Shape per_token{sizes[0]}, per_row{sizes[1]}, best{sizes[1], sizes[2]}, one{1};
  const Shape cache(sizes + 5, sizes + 10), rings(sizes + 10, sizes + 15);
  Values in, out;
  for (const char* wrong : {in.add(tokens, 8, kInt64, per_token), in.add(positions, 8, kInt64, per_token),
                            in.add(parents, 8, kInt64, per_token), in.add(length, 8, kInt64, one),
                            in.add(rows, 8, kInt64, per_row), in.add(want_logits, 8, kInt64, one),
                            in.add(kv_cache, 2, kFloat16, cache), in.add(temperature, 4, kFloat, one),
                            rings[0] ? in.add(kv_window, 2, kFloat16, rings) : nullptr,
                            out.add(values, 4, kFloat, best),
                            out.add(ids, 4, kInt32, best), out.add(logsumexp, 4, kFloat, per_row),
                            out.add(entropy, 4, kFloat, per_row), out.add(logits, 4, kFloat, {sizes[3], sizes[4]})})
    if (wrong) return wrong;
  static const char* const inputs[] = {"tokens", "positions",   "parents",  "length",
                                       "rows",   "want_logits", "kv_cache", "temperature", "kv_window"};
  static const char* const outputs[] = {"values", "ids", "logsumexp", "entropy", "logits"};
  TRY(Run, session, nullptr, inputs, in.all.data(), in.all.size(), outputs, out.all.size(),
      out.all.data());
  return nullptr;
}
