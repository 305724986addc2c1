// The part of ONNX Runtime's C API, version 18, that custom ops and the native engine need.
//
// The wheel contains no headers, and the packages that do take 150 MB. The C API is append-only: a function keeps its
// position in the table, and OrtCustomOp its fields up to the version that an op announces. So the positions below hold
// for version 18 and every later one. tests/kernels/test_ort_api.py checks them against the official headers where
// these are installed.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct OrtStatus;
struct OrtKernelInfo;
struct OrtKernelContext;
struct OrtValue;
struct OrtSessionOptions;
struct OrtCustomOpDomain;
struct OrtTensorTypeAndShapeInfo;
struct OrtShapeInferContext;

// Functions for sessions, which the engine opens.
struct OrtEnv;
struct OrtSession;
struct OrtRunOptions;
struct OrtMemoryInfo;
struct OrtTypeInfo;
struct OrtAllocator;
struct OrtIoBinding;
struct OrtModelMetadata;

struct OrtApi {
  void* slot[300];
};

struct OrtApiBase {
  const OrtApi* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)();
};

struct OrtCustomOp {
  uint32_t version;
  void* (*CreateKernel)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*);
  const char* (*GetName)(const OrtCustomOp*);
  const char* (*GetExecutionProviderType)(const OrtCustomOp*);
  int (*GetInputType)(const OrtCustomOp*, size_t);
  size_t (*GetInputTypeCount)(const OrtCustomOp*);
  int (*GetOutputType)(const OrtCustomOp*, size_t);
  size_t (*GetOutputTypeCount)(const OrtCustomOp*);
  void (*KernelCompute)(void*, OrtKernelContext*);
  void (*KernelDestroy)(void*);
  int (*GetInputCharacteristic)(const OrtCustomOp*, size_t);
  int (*GetOutputCharacteristic)(const OrtCustomOp*, size_t);
  int (*GetInputMemoryType)(const OrtCustomOp*, size_t);
  int (*GetVariadicInputMinArity)(const OrtCustomOp*);
  int (*GetVariadicInputHomogeneity)(const OrtCustomOp*);
  int (*GetVariadicOutputMinArity)(const OrtCustomOp*);
  int (*GetVariadicOutputHomogeneity)(const OrtCustomOp*);
  OrtStatus* (*CreateKernelV2)(const OrtCustomOp*, const OrtApi*, const OrtKernelInfo*, void**);
  OrtStatus* (*KernelComputeV2)(void*, OrtKernelContext*);
  OrtStatus* (*InferOutputShapeFn)(const OrtCustomOp*, OrtShapeInferContext*);
  int (*GetStartVersion)(const OrtCustomOp*);
  int (*GetEndVersion)(const OrtCustomOp*);
  size_t (*GetMayInplace)(int**, int**);
  void (*ReleaseMayInplace)(int*, int*);
  size_t (*GetAliasMap)(int**, int**);
  void (*ReleaseAliasMap)(int*, int*);
};

}  // extern "C"

namespace edgedec::ort {

constexpr uint32_t kApiVersion = 18;

// X(name, position, return type, parameters)
#define EDGEDEC_ORT_FUNCTIONS(X)                                                                                 \
  X(CreateStatus, 0, OrtStatus*, (int, const char*))                                                             \
  X(GetErrorCode, 1, int, (const OrtStatus*))                                                                    \
  X(GetErrorMessage, 2, const char*, (const OrtStatus*))                                                         \
  X(CreateEnv, 3, OrtStatus*, (int, const char*, OrtEnv**))                                                      \
  X(CreateSession, 7, OrtStatus*, (const OrtEnv*, const char*, const OrtSessionOptions*, OrtSession**))          \
  X(Run, 9, OrtStatus*,                                                                                          \
    (OrtSession*, const OrtRunOptions*, const char* const*, const OrtValue* const*, size_t,                      \
     const char* const*, size_t, OrtValue**))                                                                    \
  X(CreateSessionFromArray, 8, OrtStatus*,                                                                       \
    (const OrtEnv*, const void*, size_t, const OrtSessionOptions*, OrtSession**))                                \
  X(CreateSessionOptions, 10, OrtStatus*, (OrtSessionOptions**))                                                 \
  X(DisableMemPattern, 17, OrtStatus*, (OrtSessionOptions*))                                                     \
  X(SetSessionLogSeverityLevel, 22, OrtStatus*, (OrtSessionOptions*, int))                                       \
  X(SetSessionGraphOptimizationLevel, 23, OrtStatus*, (OrtSessionOptions*, int))                                 \
  X(SetIntraOpNumThreads, 24, OrtStatus*, (OrtSessionOptions*, int))                                             \
  X(SetInterOpNumThreads, 25, OrtStatus*, (OrtSessionOptions*, int))                                             \
  X(CreateCustomOpDomain, 26, OrtStatus*, (const char*, OrtCustomOpDomain**))                                    \
  X(CustomOpDomain_Add, 27, OrtStatus*, (OrtCustomOpDomain*, const OrtCustomOp*))                                \
  X(AddCustomOpDomain, 28, OrtStatus*, (OrtSessionOptions*, OrtCustomOpDomain*))                                 \
  X(RegisterCustomOpsLibrary, 29, OrtStatus*, (OrtSessionOptions*, const char*, void**))                         \
  X(SessionGetInputCount, 30, OrtStatus*, (const OrtSession*, size_t*))                                          \
  X(SessionGetOutputCount, 31, OrtStatus*, (const OrtSession*, size_t*))                                         \
  X(SessionGetOverridableInitializerCount, 32, OrtStatus*, (const OrtSession*, size_t*))                         \
  X(SessionGetInputTypeInfo, 33, OrtStatus*, (const OrtSession*, size_t, OrtTypeInfo**))                         \
  X(SessionGetOutputTypeInfo, 34, OrtStatus*, (const OrtSession*, size_t, OrtTypeInfo**))                        \
  X(SessionGetInputName, 36, OrtStatus*, (const OrtSession*, size_t, OrtAllocator*, char**))                     \
  X(SessionGetOutputName, 37, OrtStatus*, (const OrtSession*, size_t, OrtAllocator*, char**))                    \
  X(SessionGetOverridableInitializerName, 38, OrtStatus*, (const OrtSession*, size_t, OrtAllocator*, char**))    \
  X(CreateTensorWithDataAsOrtValue, 49, OrtStatus*,                                                              \
    (const OrtMemoryInfo*, void*, size_t, const int64_t*, size_t, int, OrtValue**))                              \
  X(GetTensorMutableData, 51, OrtStatus*, (OrtValue*, void**))                                                   \
  X(CastTypeInfoToTensorInfo, 55, OrtStatus*, (const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo**))           \
  X(GetTensorElementType, 60, OrtStatus*, (const OrtTensorTypeAndShapeInfo*, int*))                              \
  X(GetDimensionsCount, 61, OrtStatus*, (const OrtTensorTypeAndShapeInfo*, size_t*))                             \
  X(GetDimensions, 62, OrtStatus*, (const OrtTensorTypeAndShapeInfo*, int64_t*, size_t))                         \
  X(GetSymbolicDimensions, 63, OrtStatus*, (const OrtTensorTypeAndShapeInfo*, const char**, size_t))             \
  X(GetTensorShapeElementCount, 64, OrtStatus*, (const OrtTensorTypeAndShapeInfo*, size_t*))                     \
  X(GetTensorTypeAndShape, 65, OrtStatus*, (const OrtValue*, OrtTensorTypeAndShapeInfo**))                       \
  X(AllocatorFree, 76, OrtStatus*, (OrtAllocator*, void*))                                                       \
  X(AllocatorGetInfo, 77, OrtStatus*, (const OrtAllocator*, const OrtMemoryInfo**))                              \
  X(GetAllocatorWithDefaultOptions, 78, OrtStatus*, (OrtAllocator**))                                            \
  X(KernelInfoGetAttribute_float, 85, OrtStatus*, (const OrtKernelInfo*, const char*, float*))                   \
  X(KernelInfoGetAttribute_int64, 86, OrtStatus*, (const OrtKernelInfo*, const char*, int64_t*))                 \
  X(KernelInfoGetAttribute_string, 87, OrtStatus*, (const OrtKernelInfo*, const char*, char*, size_t*))          \
  X(KernelContext_GetInputCount, 88, OrtStatus*, (const OrtKernelContext*, size_t*))                             \
  X(KernelContext_GetOutputCount, 89, OrtStatus*, (const OrtKernelContext*, size_t*))                            \
  X(KernelContext_GetInput, 90, OrtStatus*, (const OrtKernelContext*, size_t, const OrtValue**))                 \
  X(KernelContext_GetOutput, 91, OrtStatus*, (OrtKernelContext*, size_t, const int64_t*, size_t, OrtValue**))    \
  X(ReleaseStatus, 93, void, (OrtStatus*))                                                                       \
  X(ReleaseSession, 95, void, (OrtSession*))                                                                     \
  X(ReleaseValue, 96, void, (OrtValue*))                                                                         \
  X(ReleaseTypeInfo, 98, void, (OrtTypeInfo*))                                                                   \
  X(ReleaseTensorTypeAndShapeInfo, 99, void, (OrtTensorTypeAndShapeInfo*))                                       \
  X(ReleaseSessionOptions, 100, void, (OrtSessionOptions*))                                                      \
  X(ReleaseCustomOpDomain, 101, void, (OrtCustomOpDomain*))                                                      \
  X(SessionGetModelMetadata, 111, OrtStatus*, (const OrtSession*, OrtModelMetadata**))                           \
  X(ModelMetadataLookupCustomMetadataMap, 116, OrtStatus*,                                                       \
    (const OrtModelMetadata*, OrtAllocator*, const char*, char**))                                               \
  X(ReleaseModelMetadata, 118, void, (OrtModelMetadata*))                                                        \
  X(AddSessionConfigEntry, 130, OrtStatus*, (OrtSessionOptions*, const char*, const char*))                      \
  X(RunWithBinding, 133, OrtStatus*, (OrtSession*, const OrtRunOptions*, const OrtIoBinding*))                   \
  X(CreateIoBinding, 134, OrtStatus*, (OrtSession*, OrtIoBinding**))                                             \
  X(ReleaseIoBinding, 135, void, (OrtIoBinding*))                                                                \
  X(BindInput, 136, OrtStatus*, (OrtIoBinding*, const char*, const OrtValue*))                                   \
  X(BindOutput, 137, OrtStatus*, (OrtIoBinding*, const char*, const OrtValue*))                                  \
  X(KernelInfoGetAttributeArray_int64, 163, OrtStatus*, (const OrtKernelInfo*, const char*, int64_t*, size_t*))  \
  X(KernelInfo_GetInputCount, 230, OrtStatus*, (const OrtKernelInfo*, size_t*))                                  \
  X(KernelInfo_GetOutputCount, 231, OrtStatus*, (const OrtKernelInfo*, size_t*))                                 \
  X(KernelInfo_GetInputName, 232, OrtStatus*, (const OrtKernelInfo*, size_t, char*, size_t*))                    \
  X(KernelInfo_GetOutputName, 233, OrtStatus*, (const OrtKernelInfo*, size_t, char*, size_t*))                   \
  X(KernelInfoGetConstantInput_tensor, 249, OrtStatus*, (const OrtKernelInfo*, size_t, int*, const OrtValue**))  \
  X(KernelContext_ParallelFor, 274, OrtStatus*,                                                                  \
    (const OrtKernelContext*, void (*)(void*, size_t), size_t, size_t, void*))

// Typed access: api(table).GetOutput(...).
struct Api {
  const OrtApi* table = nullptr;
#define X(name, position, result, parameters)                               \
  using name##_fn = result(*) parameters;                                   \
  name##_fn name() const { return reinterpret_cast<name##_fn>(table->slot[position]); }
  EDGEDEC_ORT_FUNCTIONS(X)
#undef X
};

enum ElementType { kAny = 0, kFloat = 1, kUint8 = 2, kInt32 = 6, kInt64 = 7, kFloat16 = 10 };
enum Characteristic { kRequired = 0, kOptional = 1, kVariadic = 2 };
constexpr int kFail = 1, kInvalidArgument = 2, kNoSuchFile = 3, kNoModel = 4, kInvalidProtobuf = 7, kInvalidGraph = 10;
constexpr int kFatal = 4;  // of log severities: errors arrive as statuses, and nothing is printed

}  // namespace edgedec::ort
