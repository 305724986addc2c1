// The attribute `activation` of ops that have one.
#pragma once

#include "gated_mlp/gated_mlp.h"
#include "ort/custom_op.h"

namespace edgedec::ort {

gated_mlp::Activation activation(const Info& info);

// The same of an MLP, whose gate has no sigmoid.
gated_mlp::Activation gate_activation(const Info& info);

}  // namespace edgedec::ort
