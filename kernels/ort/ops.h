#pragma once

#include "common/capi.h"
#include "ort/custom_op.h"

namespace edgedec::ort {

#define OP(name) const KernelOp* name();
#include "ort/ops.inc"
#undef OP

}  // namespace edgedec::ort

// Registers every op with `options`. ONNX Runtime looks it up by this name, and the engine calls it.
EDGEDEC_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base);
