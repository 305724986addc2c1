#pragma once

#include "ort/custom_op.h"

namespace edgedec::ort {

#define OP(name) const OrtCustomOp* name();
#include "ort/ops.inc"
#undef OP

}  // namespace edgedec::ort
