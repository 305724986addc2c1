// ONNX Runtime, found in its library or given, and its errors as statuses.
#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"
#include "ort/ort_api.h"

namespace edgedec::engine {

// One copy of ONNX Runtime. It stays loaded as long as the process, because sessions keep pointers into it.
class Runtime {
 public:
  // Loads the library at `path`, or by a name that the system's loader knows. kBackend.
  static Status load(const std::string& path, Runtime* runtime);
  // Uses a copy that the program holds already: what OrtGetApiBase() returned. kBackend.
  static Status of(const OrtApiBase* base, Runtime* runtime);

  ort::Api api() const { return api_; }
  const OrtApiBase* base() const { return base_; }
  const OrtEnv* env() const { return env_; }
  const OrtMemoryInfo* memory() const { return memory_; }

  // Takes over what a call returned. `loading`: a broken file is kBadFile, else every failure is kBackend.
  Status check(OrtStatus* status, bool loading = false) const;

 private:
  ort::Api api_;
  const OrtApiBase* base_ = nullptr;
  OrtEnv* env_ = nullptr;
  const OrtMemoryInfo* memory_ = nullptr;  // the runtime's own
};

// Owners of the runtime's objects.
#define EDGEDEC_ORT_OWNER(Name, Type, Function)                     \
  struct Name##Release {                                            \
    ort::Api api;                                                   \
    void operator()(Type* object) const { api.Function()(object); } \
  };                                                                \
  using Name = std::unique_ptr<Type, Name##Release>;

EDGEDEC_ORT_OWNER(SessionOwner, OrtSession, ReleaseSession)
EDGEDEC_ORT_OWNER(OptionsOwner, OrtSessionOptions, ReleaseSessionOptions)
EDGEDEC_ORT_OWNER(BindingOwner, OrtIoBinding, ReleaseIoBinding)
EDGEDEC_ORT_OWNER(ValueOwner, OrtValue, ReleaseValue)
EDGEDEC_ORT_OWNER(TypeOwner, OrtTypeInfo, ReleaseTypeInfo)
EDGEDEC_ORT_OWNER(MetadataOwner, OrtModelMetadata, ReleaseModelMetadata)
#undef EDGEDEC_ORT_OWNER

}  // namespace edgedec::engine
