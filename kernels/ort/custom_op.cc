#include "ort/custom_op.h"

#include <cstdlib>
#include <cstring>

#include "common/thread_order.h"

namespace edgedec::ort {
namespace {

constexpr char kNoName[] = "an input or output that it needs has no name";

}  // namespace

bool succeeded(Api api, OrtStatus* status) {
  if (!status) return true;
  api.ReleaseStatus()(status);
  return false;
}

bool read_tensor(Api api, const OrtValue* value, Tensor* found) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  if (!succeeded(api, api.GetTensorTypeAndShape()(value, &info))) return false;
  bool known = succeeded(api, api.GetTensorElementType()(info, &found->type)) &&
               succeeded(api, api.GetDimensionsCount()(info, &found->rank)) && found->rank <= kMostRank &&
               succeeded(api, api.GetDimensions()(info, found->dims, found->rank)) &&
               succeeded(api, api.GetTensorShapeElementCount()(info, &found->elements));
  api.ReleaseTensorTypeAndShapeInfo()(info);
  return known && succeeded(api, api.GetTensorMutableData()(const_cast<OrtValue*>(value), &found->data));
}

bool Context::succeeded(OrtStatus* status) const {
  if (edgedec::ort::succeeded(api_, status)) return true;
  fail("the runtime refused a tensor");
  return false;
}

size_t Context::inputs() const {
  if (op_) return op_->inputs();
  size_t count = 0;
  succeeded(api_.KernelContext_GetInputCount()(context_, &count));
  return count;
}

bool Context::has(size_t input) const {
  return input < inputs() && (op_ ? op_->input(input) != nullptr : value(input) != nullptr);
}

size_t Context::outputs() const {
  if (op_) return op_->outputs();
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
    fail(kNoName);
  return data;
}

// The shape of an input, to be released; false where it has none.
bool Context::describe(size_t input, OrtTensorTypeAndShapeInfo** info) const {
  const OrtValue* tensor = value(input);
  if (!tensor) fail(kNoName);
  return tensor && succeeded(api_.GetTensorTypeAndShape()(tensor, info));
}

void* Context::address_of(size_t input) const {
  if (!op_) return raw(value(input));
  const Tensor* found = op_->input(input);
  if (!found) fail(kNoName);
  return found ? found->data : nullptr;
}

void* Context::made(size_t index, const int64_t* shape, size_t rank) {
  if (!op_) return raw(output_value(index, shape, rank));
  if (index >= op_->outputs() || !op_->named(index)) return fail(kNoName), nullptr;
  void* found = nullptr;
  if (!op_->output(index, shape, rank, &found)) fail(kNoMemory);
  return found;
}

void* Context::made_if_named(size_t index, const int64_t* shape, size_t rank) {
  if (index >= outputs()) return nullptr;
  if (op_) return op_->named(index) ? made(index, shape, rank) : nullptr;
  const OrtValue* value = output_value(index, shape, rank);
  return value ? raw(value) : nullptr;
}

bool Context::tensor(size_t input, Tensor* found) const { return read_tensor(api_, value(input), found); }

std::vector<int64_t> Context::shape(size_t input) const {
  if (op_) {
    if (const Tensor* found = op_->input(input)) return {found->dims, found->dims + found->rank};
    return fail(kNoName), std::vector<int64_t>();
  }
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
  if (op_) {
    if (const Tensor* found = op_->input(input)) return found->elements;
    return fail(kNoName), 0;
  }
  OrtTensorTypeAndShapeInfo* info;
  if (!describe(input, &info)) return 0;
  size_t n = 0;
  OrtStatus* counted = api_.GetTensorShapeElementCount()(info, &n);
  api_.ReleaseTensorTypeAndShapeInfo()(info);
  return succeeded(counted) ? n : 0;
}

void Context::run(size_t n, void (*body)(void*, size_t), void* context) {
  if (op_) return op_->threads().run(n, body, context);
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
  info.fail(std::string("EDGEDEC_ISA=") + std::getenv("EDGEDEC_ISA") + " is not a kernel row that this library has and this CPU can run");
  return "scalar";
}

OrtStatus* outcome(Api api, const char* op, const Problem& problem) {
  if (problem.ok()) return nullptr;
  const std::string& text = problem.problem();
  const bool named = std::strncmp(text.c_str(), kDomain, std::size(kDomain) - 1) == 0;  // by the op of a region
  return api.CreateStatus()(kInvalidArgument, named ? text.c_str() : (kDomain + ("." + (op + (": " + text)))).c_str());
}

}  // namespace edgedec::ort
