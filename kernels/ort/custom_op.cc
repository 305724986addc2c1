#include "ort/custom_op.h"

#include <cstdlib>

#include "common/thread_order.h"

namespace edgedec::ort {
namespace {

// True when the call succeeded; the status of a failed one is released.
bool succeeded(Api api, OrtStatus* status) {
  if (!status) return true;
  api.ReleaseStatus()(status);
  return false;
}

}  // namespace

void Info::missing(const char* name) const {
  fail(std::string("attribute ") + name + " is missing or of the wrong type");
}

int64_t Info::integer(const char* name) const {
  int64_t value = 0;
  if (!succeeded(api_, api_.KernelInfoGetAttribute_int64()(info_, name, &value))) missing(name);
  return value;
}

int64_t Info::integer(const char* name, int64_t otherwise) const {
  int64_t value;
  return succeeded(api_, api_.KernelInfoGetAttribute_int64()(info_, name, &value)) ? value : otherwise;
}

float Info::real(const char* name) const {
  float value = 0.0f;
  if (!succeeded(api_, api_.KernelInfoGetAttribute_float()(info_, name, &value))) missing(name);
  return value;
}

float Info::real(const char* name, float otherwise) const {
  float value;
  return succeeded(api_, api_.KernelInfoGetAttribute_float()(info_, name, &value)) ? value : otherwise;
}

std::string Info::text(const char* name) const {
  char buffer[256] = {};
  size_t size = sizeof buffer;
  if (!succeeded(api_, api_.KernelInfoGetAttribute_string()(info_, name, buffer, &size))) missing(name);
  return std::string(buffer);
}

std::vector<int64_t> Info::integers(const char* name) const {
  size_t size = 0;
  succeeded(api_, api_.KernelInfoGetAttributeArray_int64()(info_, name, nullptr, &size));
  std::vector<int64_t> values(size);
  if (size && succeeded(api_, api_.KernelInfoGetAttributeArray_int64()(info_, name, values.data(), &size))) return values;
  missing(name);
  return {};
}

std::vector<std::string> Info::words(const char* name) const {
  std::vector<std::string> words(1);
  for (char c : text(name))
    if (c == ',')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

bool Context::succeeded(OrtStatus* status) const {
  if (edgedec::ort::succeeded(api_, status)) return true;
  fail("the runtime refused a tensor");
  return false;
}

size_t Context::inputs() const {
  size_t count = 0;
  succeeded(api_.KernelContext_GetInputCount()(context_, &count));
  return count;
}

size_t Context::outputs() const {
  size_t count = 0;
  succeeded(api_.KernelContext_GetOutputCount()(context_, &count));
  return count;
}

const OrtValue* Context::value(size_t input) const {
  const OrtValue* value = nullptr;
  succeeded(api_.KernelContext_GetInput()(context_, input, &value));
  return value;
}

OrtValue* Context::output_value(size_t index, const int64_t* shape, size_t rank) {
  OrtValue* value = nullptr;
  succeeded(api_.KernelContext_GetOutput()(context_, index, shape, rank, &value));
  return value;
}

void* Context::raw(const OrtValue* value) const {
  void* data = nullptr;
  if (value)
    succeeded(api_.GetTensorMutableData()(const_cast<OrtValue*>(value), &data));
  else
    fail("an input or output that it needs has no name");
  return data;
}

// The shape of an input, to be released; false where it has none.
bool Context::describe(size_t input, OrtTensorTypeAndShapeInfo** info) const {
  const OrtValue* tensor = value(input);
  if (!tensor) fail("an input or output that it needs has no name");
  return tensor && succeeded(api_.GetTensorTypeAndShape()(tensor, info));
}

std::vector<int64_t> Context::shape(size_t input) const {
  OrtTensorTypeAndShapeInfo* info;
  if (!describe(input, &info)) return {};
  size_t rank = 0;
  OrtStatus* counted = api_.GetDimensionsCount()(info, &rank);
  std::vector<int64_t> dims(rank);
  OrtStatus* read = counted ? nullptr : api_.GetDimensions()(info, dims.data(), rank);
  api_.ReleaseTensorTypeAndShapeInfo()(info);
  if (!succeeded(counted) || !succeeded(read)) return {};
  return dims;
}

int Context::rows(size_t input, int64_t columns) const {
  const std::vector<int64_t> dims = shape(input);
  if (dims.size() == 2 && dims[1] == columns && dims[0] <= 1 << 20) return static_cast<int>(dims[0]);
  fail("input " + std::to_string(input) + " must be a matrix of " + std::to_string(columns) + " columns");
  return 0;
}

size_t Context::elements(size_t input) const {
  OrtTensorTypeAndShapeInfo* info;
  if (!describe(input, &info)) return 0;
  size_t n = 0;
  OrtStatus* counted = api_.GetTensorShapeElementCount()(info, &n);
  api_.ReleaseTensorTypeAndShapeInfo()(info);
  return succeeded(counted) ? n : 0;
}

void Context::run(size_t n, void (*body)(void*, size_t), void* context) {
#ifdef EDGEDEC_THREAD_SANITIZER
  OrderedSection section(body, context);
  body = OrderedSection::part;
  context = &section;
#endif
  succeeded(api_.KernelContext_ParallelFor()(context_, body, n, 0, context));
}

WeightInput::WeightInput(const Info& info, const std::string& format, int64_t rows, int64_t cols) {
  constexpr int64_t kMost = 1 << 28;
  weight_.format = format_by_name(format.c_str());
  if (weight_.format == FormatId::kCount) info.fail("unknown weight format " + format);
  if (rows < 1 || cols < 1 || rows > kMost || cols > kMost) info.fail("impossible weight shape");
  weight_.rows = static_cast<int>(rows);
  weight_.cols = static_cast<int>(cols);
}

const Weight& WeightInput::at(const Context& context, size_t input) {
  // Checked in every call: a tensor that the graph computes or receives may be shorter at the same address.
  if (const size_t bytes = context.elements(input); bytes != weight_.bytes())
    context.fail("packed weight has " + std::to_string(bytes) + " bytes, its shape needs " +
                 std::to_string(weight_.bytes()));
  // Records hold fp16 and fp32 numbers that are read in place, so data<float>() checks their alignment.
  weight_.data = reinterpret_cast<const uint8_t*>(context.data<const float>(input));
  return weight_;
}

const char* isa(const Info& info) {
  if (const char* row = selected_isa()) return row;
  info.fail(std::string("EDGEDEC_ISA=") + std::getenv("EDGEDEC_ISA") + " is unknown or not available on this CPU");
  return "scalar";
}

OrtStatus* outcome(Api api, const char* op, const Problem& problem) {
  if (problem.ok()) return nullptr;
  return api.CreateStatus()(kInvalidArgument, (std::string("ai.edgedec.") + op + ": " + problem.problem()).c_str());
}

}  // namespace edgedec::ort
