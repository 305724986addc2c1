#include "engine/model/ports.h"

namespace edgedec::engine {

Status Ports::read(const Runtime& runtime, const OrtSession* session, Count count, Name name, Type type) {
  const ort::Api api = runtime.api();
  size_t n = 0;
  OrtAllocator* allocator = nullptr;
  EDGEDEC_TRY(runtime.check(api.GetAllocatorWithDefaultOptions()(&allocator), true));
  EDGEDEC_TRY(runtime.check(count(session, &n), true));
  for (size_t at = 0; at < n; ++at) {
    char* text = nullptr;
    EDGEDEC_TRY(runtime.check(name(session, at, allocator, &text), true));
    all.push_back({text, {}, {}});
    EDGEDEC_TRY(runtime.check(api.AllocatorFree()(allocator, text)));
    if (type) EDGEDEC_TRY(read_shape(runtime, session, at, type));
  }
  return {};
}

Status Ports::read_inputs(const Runtime& runtime, const OrtSession* session) {
  const ort::Api api = runtime.api();
  return read(runtime, session, api.SessionGetInputCount(), api.SessionGetInputName(), api.SessionGetInputTypeInfo());
}

Status Ports::read_outputs(const Runtime& runtime, const OrtSession* session) {
  const ort::Api api = runtime.api();
  return read(runtime, session, api.SessionGetOutputCount(), api.SessionGetOutputName(), api.SessionGetOutputTypeInfo());
}

Status Ports::read_shape(const Runtime& runtime, const OrtSession* session, size_t at, Type type) {
  const ort::Api api = runtime.api();
  OrtTypeInfo* found = nullptr;
  EDGEDEC_TRY(runtime.check(type(session, at, &found), true));
  const TypeOwner owner(found, {api});
  const OrtTensorTypeAndShapeInfo* info = nullptr;
  EDGEDEC_TRY(runtime.check(api.CastTypeInfoToTensorInfo()(found, &info), true));
  size_t rank = 0;
  if (!info) return {};  // not a tensor
  EDGEDEC_TRY(runtime.check(api.GetDimensionsCount()(info, &rank), true));
  Port& port = all.back();
  port.dims.resize(rank);
  std::vector<const char*> names(rank, nullptr);
  EDGEDEC_TRY(runtime.check(api.GetDimensions()(info, port.dims.data(), rank), true));
  EDGEDEC_TRY(runtime.check(api.GetSymbolicDimensions()(info, names.data(), rank), true));
  if (rank && names.back()) port.last = names.back();
  return {};
}

}  // namespace edgedec::engine
