// The base of all custom ops: attributes, inputs, outputs, errors, threads, registration.
#pragma once

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "common/isa.h"
#include "common/parallel.h"
#include "packing/formats.h"
#include "ort/node.h"
#include "ort/ort_api.h"

namespace edgedec::ort {

// The first thing that is wrong with a node. The library has no exceptions: a read that fails returns a value that does
// no harm (0, null, nothing) and notes why, and a kernel looks at ok() before it uses what it has read.
class Problem {
 public:
  bool ok() const { return text_.empty(); }
  void fail(std::string text) const {
    if (ok()) text_ = std::move(text);
  }
  const std::string& problem() const { return text_; }

 private:
  mutable std::string text_;
};

constexpr size_t kMostRank = 5;

// A tensor that an op of a region reads or writes.
struct Tensor {
  void* data = nullptr;
  int type = kAny;
  size_t rank = 0, elements = 0;
  int64_t dims[kMostRank] = {};
};

// True when the call succeeded; the status of a failed one is released.
bool succeeded(Api api, OrtStatus* status);

// Reads type, shape and address; false for a value that is no tensor, or has more dimensions than any of ours.
bool read_tensor(Api api, const OrtValue* value, Tensor* found);

// The attributes of a node, while its kernel is made: a node of ONNX Runtime, or one within a region.
class Info : public Problem {
 public:
  Info(Api api, const OrtKernelInfo* info) : api_(api), info_(info) {}
  explicit Info(const std::vector<Attribute>& attributes) : info_(nullptr), attributes_(&attributes) {}
  int64_t integer(const char* name) const;
  int64_t integer(const char* name, int64_t otherwise) const;
  float real(const char* name) const;
  float real(const char* name, float otherwise) const;
  std::string text(const char* name) const;  // at most 255 bytes
  std::string long_text(const char* name) const;
  std::vector<int64_t> integers(const char* name) const;
  std::vector<std::string> words(const char* name) const;  // comma-separated

  // Only for a node of ONNX Runtime: the names of its inputs or outputs, and the inputs that never change.
  std::vector<std::string> input_names() const;
  std::vector<std::string> output_names() const;
  bool constant(size_t input, Tensor* found) const;

 private:
  void missing(const char* name) const;
  const Attribute* find(const char* name, uint64_t type) const;

  Api api_;
  const OrtKernelInfo* info_;
  const std::vector<Attribute>* attributes_ = nullptr;
};

// The inputs, outputs and threads of an op within a region.
class RegionOp {
 public:
  virtual ~RegionOp() = default;
  virtual size_t inputs() const = 0;
  virtual size_t outputs() const = 0;
  virtual const Tensor* input(size_t at) const = 0;  // null where it has none
  virtual bool named(size_t output) const = 0;
  virtual bool output(size_t at, const int64_t* shape, size_t rank, void** data) = 0;  // false without memory
  virtual Parallel& threads() = 0;
};

// The inputs, outputs and thread pool of a node, while it runs: of ONNX Runtime, or of a region.
class Context : public Parallel, public Problem {
 public:
  Context(Api api, OrtKernelContext* context) : api_(api), context_(context) {}
  explicit Context(RegionOp& op) : context_(nullptr), op_(&op) {}

  size_t inputs() const;
  size_t outputs() const;
  bool has(size_t input) const;
  template <class T>
  T* data(size_t input) const {
    void* address = address_of(input);
    if (reinterpret_cast<uintptr_t>(address) % alignof(T) == 0) return static_cast<T*>(address);
    fail("input " + std::to_string(input) + " does not lie where its type may lie in memory");
    return nullptr;
  }
  template <class T>
  T* optional(size_t input) const {
    return has(input) ? data<T>(input) : nullptr;
  }
  std::vector<int64_t> shape(size_t input) const;
  // First dimension of a matrix whose second must be `columns`.
  int rows(size_t input, int64_t columns) const;
  size_t elements(size_t input) const;
  template <class T>
  T* output(size_t index, std::initializer_list<int64_t> shape) {
    return static_cast<T*>(made(index, shape.begin(), shape.size()));
  }
  // nullptr when the node has no such output, or one without a name.
  template <class T>
  T* optional_output(size_t index, std::initializer_list<int64_t> shape) {
    return static_cast<T*>(made_if_named(index, shape.begin(), shape.size()));
  }
  void run(size_t n, void (*body)(void*, size_t), void* context) override;
  size_t width() const override { return op_ ? op_->threads().width() : 0; }
  void pause(bool paused) override {
    if (op_) op_->threads().pause(paused);
  }

  // Only for a node of ONNX Runtime.
  bool tensor(size_t input, Tensor* found) const;
  void* made(size_t index, const int64_t* shape, size_t rank);

 private:
  void* address_of(size_t input) const;
  void* made_if_named(size_t index, const int64_t* shape, size_t rank);
  const OrtValue* value(size_t input) const;
  OrtValue* output_value(size_t index, const int64_t* shape, size_t rank);
  void* raw(const OrtValue* value) const;
  bool describe(size_t input, OrtTensorTypeAndShapeInfo** info) const;
  bool succeeded(OrtStatus* status) const;

  Api api_;
  OrtKernelContext* context_;
  RegionOp* op_ = nullptr;
};

// A packed weight input; its size in bytes is checked against its shape.
class WeightInput {
 public:
  WeightInput(const Info& info, const std::string& format, int64_t rows, int64_t cols);
  const Weight& at(const Context& context, size_t input);
  const Weight& shape() const { return weight_; }

 private:
  Weight weight_;
};

// The quantised row to use; a problem of the node when EDGEDEC_ISA asks for one that cannot run here.
const char* isa(const Info& info);

constexpr char kDomain[] = "ai.edgedec";
constexpr char kNoMemory[] = "not enough memory";

struct Port {
  ElementType type;
  Characteristic characteristic = kRequired;
};

// A status with the problem, or null where there is none.
OrtStatus* outcome(Api api, const char* op, const Problem& problem);

// An op and its kernel, for ONNX Runtime and for regions.
struct KernelOp : OrtCustomOp {
  const char* name;
  const Port *inputs, *outputs;
  size_t input_ports, output_ports;
  void* (*make)(const Info&);  // null without memory
  void (*compute)(void* kernel, Context&);
  void (*destroy)(void* kernel);
};

// Op: kName, kInputs, kOutputs (arrays of Port), Op(const Info&), void compute(Context&).
template <class Op>
struct CustomOp : KernelOp {
  struct Kernel {
    Api api;
    Op op;
  };

  CustomOp() : KernelOp{} {
    name = Op::kName;
    inputs = Op::kInputs, input_ports = std::size(Op::kInputs);
    outputs = Op::kOutputs, output_ports = std::size(Op::kOutputs);
    make = [](const Info& info) -> void* { return new (std::nothrow) Op(info); };
    compute = [](void* kernel, Context& c) { static_cast<Op*>(kernel)->compute(c); };
    destroy = [](void* kernel) { delete static_cast<Op*>(kernel); };
    version = kApiVersion;
    GetName = [](const OrtCustomOp*) { return Op::kName; };
    GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return "CPUExecutionProvider"; };
    GetInputType = [](const OrtCustomOp*, size_t i) { return static_cast<int>(Op::kInputs[i].type); };
    GetInputTypeCount = [](const OrtCustomOp*) { return std::size(Op::kInputs); };
    GetOutputType = [](const OrtCustomOp*, size_t i) { return static_cast<int>(Op::kOutputs[i].type); };
    GetOutputTypeCount = [](const OrtCustomOp*) { return std::size(Op::kOutputs); };
    GetInputCharacteristic = [](const OrtCustomOp*, size_t i) {
      return static_cast<int>(Op::kInputs[i].characteristic);
    };
    GetOutputCharacteristic = [](const OrtCustomOp*, size_t i) {
      return static_cast<int>(Op::kOutputs[i].characteristic);
    };
    GetInputMemoryType = [](const OrtCustomOp*, size_t) { return 0; };
    GetVariadicInputMinArity = [](const OrtCustomOp*) { return 1; };
    GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return static_cast<int>(Op::kInputs[0].type != kAny); };
    GetVariadicOutputMinArity = [](const OrtCustomOp*) { return 0; };
    GetVariadicOutputHomogeneity = [](const OrtCustomOp*) { return static_cast<int>(Op::kOutputs[0].type != kAny); };
    GetStartVersion = [](const OrtCustomOp*) { return 1; };
    GetEndVersion = [](const OrtCustomOp*) { return 1; };
    CreateKernelV2 = [](const OrtCustomOp*, const OrtApi* table, const OrtKernelInfo* info, void** kernel) {
      const Api api{table};
      const Info attributes(api, info);
      auto* made = new (std::nothrow) Kernel{api, Op(attributes)};
      if (!made) attributes.fail(kNoMemory);
      *kernel = made;
      OrtStatus* status = outcome(api, Op::kName, attributes);
      if (status) {
        delete made;
        *kernel = nullptr;
      }
      return status;
    };
    KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
      auto* self = static_cast<Kernel*>(kernel);
      Context c(self->api, context);
      self->op.compute(c);
      if (c.lacks_memory()) c.fail(kNoMemory);
      return outcome(self->api, Op::kName, c);
    };
    KernelDestroy = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  }
};

}  // namespace edgedec::ort
