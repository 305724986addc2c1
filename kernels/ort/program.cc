#include "ort/program.h"

#include <algorithm>
#include <utility>

#include "common/wire.h"
#include "ort/ops.h"

namespace edgedec::ort {
namespace {

int port_type(const Port* ports, size_t count, size_t at) {
  if (at < count) return ports[at].type;
  return count && ports[count - 1].characteristic == kVariadic ? ports[count - 1].type : -1;
}

bool required(const Port* ports, size_t count, size_t at) {
  return ports[std::min(at, count - 1)].characteristic != kOptional;
}

// Fewest inputs or outputs: up to the last that has to be there.
size_t fewest(const Port* ports, size_t count) {
  while (count && ports[count - 1].characteristic == kOptional) --count;
  return count;
}

}  // namespace

const KernelOp* op_named(std::string_view name) {
  for (const KernelOp* op : {
#define OP(one) one(),
#include "ort/ops.inc"
#undef OP
       })
    if (op->inputs[0].type != kAny && op->name == name) return op;
  return nullptr;
}

int input_type(const KernelOp& op, size_t at) { return port_type(op.inputs, op.input_ports, at); }
int output_type(const KernelOp& op, size_t at) { return port_type(op.outputs, op.output_ports, at); }

Step::Step(Step&& other) noexcept
    : op(other.op),
      kernel(std::exchange(other.kernel, nullptr)),
      inputs(std::move(other.inputs)),
      outputs(std::move(other.outputs)),
      last_used(std::move(other.last_used)) {}

Program::Program(std::string_view nodes, const std::vector<std::string>& input_names,
                 const std::vector<std::string>& outputs)
    : inputs(input_names.size()) {
  if (inputs > kMostValues) fail("it has too many values");
  for (size_t i = 0; ok() && i < inputs; ++i)
    if (!add_value(input_names[i], kAny)) fail("two of its inputs are named alike");
  wire::Fields fields(nodes);
  while (ok() && fields.next())
    if (fields.number == 1 && fields.is_bytes) add(fields.bytes);
  if (fields.wrong || steps.empty()) fail("its ops cannot be read");
  made.assign(types.size(), -1);
  for (size_t i = 0; ok() && i < outputs.size(); ++i) {
    const size_t* found = numbers_.find(outputs[i]);
    if (!found || *found < inputs)
      fail("no op makes its output " + outputs[i].substr(0, 80));
    else
      made[*found] = static_cast<int>(i);
  }
  if (ok()) find_last_uses();
}

bool Program::add_value(std::string_view name, int type) {
  if (!numbers_.add(name, types.size())) return false;
  types.push_back(type);
  return true;
}

void Program::add(std::string_view message) {
  Node node;
  if (read_node(message, &node) || !node.plain || node.domain != kDomain) return fail("its ops cannot be read");
  const std::string name(node.op.substr(0, 40));
  const KernelOp* op = op_named(node.op);
  if (!op) return fail("it has no op " + name);
  if (types.size() + node.outputs.size() > kMostValues) return fail("it has too many values");
  const Info info(node.attributes);
  Step step(op, op->make(info));
  if (!step.kernel) info.fail(kNoMemory);
  if (!info.ok()) return fail(std::string(kDomain) + "." + name + ": " + info.problem());
  read_inputs(node, &step);
  make_outputs(node, &step);
  steps.push_back(std::move(step));
}

void Program::read_inputs(const Node& node, Step* step) {
  const KernelOp& op = *step->op;
  if (node.inputs.size() < fewest(op.inputs, op.input_ports)) return fail(std::string(op.name) + " lacks an input");
  for (size_t i = 0; ok() && i < node.inputs.size(); ++i) {
    const int type = input_type(op, i);
    if (type < 0) return fail(std::string(op.name) + " has too many inputs");
    const bool missing = node.inputs[i].empty();
    if (missing && required(op.inputs, op.input_ports, i)) return fail(std::string(op.name) + " lacks an input");
    step->inputs.push_back(missing ? -1 : value(node.inputs[i], type));
  }
}

// The value of that name, which is there already and is of that type.
int Program::value(std::string_view name, int type) {
  const size_t* found = numbers_.find(name);
  if (!found) return fail("no op before makes " + std::string(name.substr(0, 80))), -1;
  if (types[*found] == kAny) types[*found] = type;
  if (types[*found] != type) fail(std::string(name.substr(0, 80)) + " is of another type");
  return static_cast<int>(*found);
}

void Program::make_outputs(const Node& node, Step* step) {
  const KernelOp& op = *step->op;
  if (node.outputs.size() < fewest(op.outputs, op.output_ports)) return fail(std::string(op.name) + " lacks an output");
  for (size_t i = 0; ok() && i < node.outputs.size(); ++i) {
    const std::string_view name = node.outputs[i];
    const int type = output_type(op, i);
    if (type < 0) return fail(std::string(op.name) + " has too many outputs");
    if (name.empty() && required(op.outputs, op.output_ports, i)) return fail(std::string(op.name) + " lacks an output");
    step->outputs.push_back(name.empty() ? -1 : static_cast<int>(types.size()));
    if (!name.empty() && !add_value(name, type)) return fail("two ops make " + std::string(name.substr(0, 80)));
  }
}

void Program::find_last_uses() {
  std::vector<bool> used(types.size(), false);
  for (size_t at = steps.size(); at-- > 0;)
    for (const auto* values : {&steps[at].inputs, &steps[at].outputs})
      for (int value : *values) {
        const auto one = static_cast<size_t>(value);
        if (value < 0 || one < inputs || used[one]) continue;
        used[one] = true;
        if (made[one] < 0) steps[at].last_used.push_back(value);
      }
}

}  // namespace edgedec::ort
