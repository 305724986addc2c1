// Region: a run of ops as one node of ONNX Runtime. Between them there is no dispatch of the runtime, and the threads stay
// together (common/team.h). ort/with_regions.h puts regions into a graph when it is opened.
//
// Its inputs and outputs are those of the ops that lie outside the run. Attributes: ops, the nodes as in the file; threads.
#include <algorithm>
#include <cstdlib>

#include "common/os/memory.h"
#include "common/team.h"
#include "ort/ops.h"
#include "ort/program.h"

namespace edgedec::ort {
namespace {

size_t element_bytes(int type) {
  switch (type) {
    case kInt64: return 8;
    case kFloat16: return 2;
    case kUint8: return 1;
    default: return 4;
  }
}

// Memory of values between ops, which goes back to the system after the pass. A block that is free serves the next value of
// its size: layers are alike.
class Blocks {
 public:
  ~Blocks() {
    for (const auto* blocks : {&taken_, &free_})
      for (const Block& one : *blocks) one.bytes < kMapped ? os::free_aligned(one.data) : os::return_pages(one.data, one.bytes);
  }

  // Null without memory.
  void* take(size_t bytes) {
    for (Block& one : free_)
      if (one.bytes == bytes) return move(one, &free_, &taken_);
    void* data = bytes < kMapped ? os::take_aligned(64, std::max<size_t>(bytes, 1)) : os::take_pages(bytes);
    if (!data) return nullptr;
    taken_.push_back({data, bytes});
    return data;
  }

  void give(void* data) {
    for (Block& one : taken_)
      if (one.data == data) {
        move(one, &taken_, &free_);
        return;
      }
  }

 private:
  struct Block {
    void* data;
    size_t bytes;
  };
  // The heap keeps large blocks that it is given back, one set for each thread that has led.
  static constexpr size_t kMapped = 64 << 10;

  static void* move(Block& one, std::vector<Block>* from, std::vector<Block>* to) {
    const Block moved = one;
    one = from->back();
    from->pop_back();
    to->push_back(moved);
    return moved.data;
  }

  std::vector<Block> taken_, free_;
};

// One pass of a program over its values.
class Run {
 public:
  Run(const Program& program, const std::vector<Tensor>& values, Context& node)
      : program_(program), values_(values), node_(node) {}

  std::vector<Tensor>& values() { return values_; }

  // Until the first op that finds something wrong.
  void all(Parallel& threads) {
    for (const Step& step : program_.steps) {
      StepValues of_step(*this, step, threads);
      Context c(of_step);
      step.op->compute(step.kernel, c);
      if (c.lacks_memory()) c.fail(kNoMemory);
      if (!c.ok()) return node_.fail(std::string(kDomain) + "." + step.op->name + ": " + c.problem());
      for (int value : step.last_used) blocks_.give(values_[static_cast<size_t>(value)].data);
    }
  }

 private:
  class StepValues : public RegionOp {
   public:
    StepValues(Run& run, const Step& step, Parallel& threads) : run_(run), step_(step), threads_(threads) {}
    size_t inputs() const override { return step_.inputs.size(); }
    size_t outputs() const override { return step_.outputs.size(); }
    const Tensor* input(size_t at) const override {
      const int value = at < step_.inputs.size() ? step_.inputs[at] : -1;
      return value < 0 ? nullptr : &run_.values_[static_cast<size_t>(value)];
    }
    bool named(size_t output) const override { return step_.outputs[output] >= 0; }
    bool output(size_t at, const int64_t* shape, size_t rank, void** data) override {
      Tensor& made = run_.values_[static_cast<size_t>(step_.outputs[at])];
      if (!run_.make(static_cast<size_t>(step_.outputs[at]), shape, rank)) return false;
      *data = made.data;
      return true;
    }
    Parallel& threads() override { return threads_; }

   private:
    Run& run_;
    const Step& step_;
    Parallel& threads_;
  };

  bool make(size_t value, const int64_t* shape, size_t rank) {
    Tensor& made = values_[value];
    made.type = program_.types[value];
    made.rank = rank, made.elements = 1;
    for (size_t i = 0; i < rank; ++i) {
      made.dims[i] = shape[i];
      if (shape[i] < 0 || __builtin_mul_overflow(made.elements, static_cast<size_t>(shape[i]), &made.elements)) return false;
    }
    size_t bytes = 0;
    if (__builtin_mul_overflow(made.elements, element_bytes(made.type), &bytes)) return false;
    const int output = program_.made[value];
    made.data = output < 0 ? blocks_.take(bytes) : node_.made(static_cast<size_t>(output), shape, rank);
    return made.data || bytes == 0;
  }

  const Program& program_;
  std::vector<Tensor> values_;
  Context& node_;
  Blocks blocks_;
};

struct Region {
  static constexpr const char* kName = "Region";
  static constexpr Port kInputs[] = {{kAny, kVariadic}};
  static constexpr Port kOutputs[] = {{kAny, kVariadic}};

  explicit Region(const Info& info)
      : threads(info.integer("threads")),
        nodes(info.long_text("ops")),
        program(nodes, info.input_names(), info.output_names()),
        values(program.types.size()) {
    if (threads < 1 || threads > 1024) info.fail("threads must be 1 to 1024");
    if (!program.ok()) info.fail(program.problem());
    for (size_t i = 0; info.ok() && i < program.inputs; ++i)
      if (program.types[i] == kAny || !info.constant(i, &values[i]))
        changing.push_back(i);
      else if (values[i].type != program.types[i])
        info.fail("an input is of another type than an op reads");
  }

  void compute(Context& c) {
    Run run(program, values, c);
    for (size_t i : changing) {
      Tensor& value = run.values()[i];
      if (program.types[i] == kAny) continue;
      if (!c.has(i) || !c.tensor(i, &value) || value.type != program.types[i])
        return c.fail("an input is of another type than an op reads");
    }
    if (threads == 1) {
      Serial alone;
      return run.all(alone);
    }
    struct Work {
      Run& run;
      Team* team;
    } work{run, nullptr};
    Team team(static_cast<size_t>(threads), [](void* opaque) {
      auto* self = static_cast<Work*>(opaque);
      self->run.all(*self->team);
    }, &work);
    work.team = &team;
    c.run(static_cast<size_t>(threads), [](void* opaque, size_t) { static_cast<Team*>(opaque)->join(); }, &team);
  }

  int64_t threads;
  std::string nodes;
  Program program;
  std::vector<Tensor> values;    // those that never change are set
  std::vector<size_t> changing;  // inputs that a pass sets
};

}  // namespace

const KernelOp* region_op() {
  static const CustomOp<Region> op;
  return &op;
}

}  // namespace edgedec::ort
