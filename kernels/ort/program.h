// The program of a region: its ops in the order in which they run, and the values between them.
#pragma once

#include <string>
#include <vector>

#include "ort/custom_op.h"
#include "ort/numbers.h"

namespace edgedec::ort {

// An op that a region may hold, or null.
const KernelOp* op_named(std::string_view name);

// The element type that an op's input or output has, or -1 where it has no such port.
int input_type(const KernelOp& op, size_t at);
int output_type(const KernelOp& op, size_t at);

// One op. A number names a value; -1 is an input or output that is missing.
struct Step {
  Step(const KernelOp* op, void* kernel) : op(op), kernel(kernel) {}
  Step(Step&& other) noexcept;
  ~Step() {
    if (kernel) op->destroy(kernel);
  }

  const KernelOp* op;
  void* kernel;
  std::vector<int> inputs, outputs;
  std::vector<int> last_used;  // values that nobody reads after this step
};

class Program : public Problem {
 public:
  // `nodes`: NodeProtos, one after the other, each as field 1. `inputs` and `outputs`: names of the region's values.
  Program(std::string_view nodes, const std::vector<std::string>& input_names, const std::vector<std::string>& outputs);

  size_t inputs;
  std::vector<Step> steps;
  std::vector<int> types;  // by value; the first ones are the inputs. kAny: no op reads it
  std::vector<int> made;   // by value: which output of the region it is; -1: none

 private:
  void add(std::string_view message);
  int value(std::string_view name, int type);
  bool add_value(std::string_view name, int type);
  void read_inputs(const Node& node, Step* step);
  void make_outputs(const Node& node, Step* step);
  void find_last_uses();

  Numbers<std::string> numbers_;  // of values
};

}  // namespace edgedec::ort
