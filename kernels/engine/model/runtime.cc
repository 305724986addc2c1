#include "engine/model/runtime.h"

#include "common/os/library.h"
#include "core/base/format.h"

namespace edgedec::engine {
namespace {

constexpr int kOldestRuntime[] = {1, 22};  // as in pyproject.toml
constexpr size_t kMostShown = 300;
constexpr std::string_view kExpert = "ai.edgedec.Experts: an expert ";  // a fault of the file: the runtime refused nothing

// The first line of a message, cut, with ? for bytes that could steer a terminal.
std::string first_line(std::string_view text) {
  std::string shown;
  for (char one : text.substr(0, kMostShown)) {
    if (one == '\n') break;
    shown += one >= ' ' && one < 0x7F ? one : '?';
  }
  return shown;
}

// Whether a version such as "1.32.0" is that or a later one.
bool new_enough(const char* version) {
  for (int wanted : kOldestRuntime) {
    int part = 0;
    for (; *version >= '0' && *version <= '9' && part < 10000; ++version) part = part * 10 + (*version - '0');
    if (part != wanted) return part > wanted;
    if (*version == '.') ++version;
  }
  return true;
}

}  // namespace

Status Runtime::load(const std::string& path, Runtime* runtime) {
  std::string why;
  void* library = os::load_library(path.c_str(), &why);
  if (!library) return {Code::kBackend, "ONNX Runtime cannot be loaded: " + first_line(why), "name its library"};
  const auto find = reinterpret_cast<const OrtApiBase* (*)()>(os::find_function(library, "OrtGetApiBase"));
  if (!find) return {Code::kBackend, quoted(path, 200) + " is not ONNX Runtime", "name its library"};
  return of(find(), runtime);
}

Status Runtime::of(const OrtApiBase* base, Runtime* runtime) {
  const char* version = base->GetVersionString();
  runtime->base_ = base;
  runtime->api_.table = new_enough(version) ? base->GetApi(ort::kApiVersion) : nullptr;
  if (!runtime->api_.table)
    return {Code::kBackend, "ONNX Runtime " + first_line(version) + " is too old",
            "install onnxruntime " + decimal(kOldestRuntime[0]) + "." + decimal(kOldestRuntime[1]) + " or newer"};
  const ort::Api api = runtime->api_;
  EDGEDEC_TRY(runtime->check(api.CreateEnv()(ort::kFatal, "edgedec", &runtime->env_)));
  OrtAllocator* allocator = nullptr;
  EDGEDEC_TRY(runtime->check(api.GetAllocatorWithDefaultOptions()(&allocator)));
  return runtime->check(api.AllocatorGetInfo()(allocator, &runtime->memory_));
}

Status Runtime::check(OrtStatus* status, bool loading) const {
  if (!status) return {};
  const int code = api_.GetErrorCode()(status);
  const std::string_view said = api_.GetErrorMessage()(status);
  const size_t expert = said.find(kExpert);
  const std::string text = first_line(expert == std::string_view::npos ? said : said.substr(expert + kExpert.find("an expert")));
  api_.ReleaseStatus()(status);
  const char* again = "verify the bundle, or pull or export the model again";
  if (expert != std::string_view::npos) return loading ? Status(Code::kBadFile, text, again) : Status(Code::kBackend, text);
  const bool broken = code == ort::kInvalidProtobuf || code == ort::kInvalidGraph || code == ort::kNoSuchFile ||
                      code == ort::kNoModel || code == ort::kInvalidArgument;
  const std::string message = "ONNX Runtime refused the model: " + text;
  if (!loading || !broken) return {Code::kBackend, message};
  return {Code::kBadFile, message, again};
}

}  // namespace edgedec::engine
