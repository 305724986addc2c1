// GatedMLP: y = act(G x) * (U x). Both matrices are streamed side by side, so neither product is written to memory.
// GatedProduct: y = act(gate) * values, of two tensors that are there already; the same rows compute it.
//
// The activation "clamped_silu" changes both factors, by the constants of the models that have it:
//   g = min(gate, 7); u = max(-7, min(up, 7)); y = g / (1 + e^(-1.702 g)) * (u + 1)
#pragma once

#include <string_view>

#include "quant_linear/linear.h"

namespace edgedec::gated_mlp {

enum class Activation { kSilu, kGeluTanh, kClampedSilu, kSigmoid };  // the last one for GatedProduct alone

// Finds the activation that graphs call so; false where there is none.
inline bool activation_by_name(std::string_view name, Activation* found) {
  *found = name == "silu"           ? Activation::kSilu
           : name == "gelu_tanh"    ? Activation::kGeluTanh
           : name == "clamped_silu" ? Activation::kClampedSilu
                                    : Activation::kSigmoid;
  return *found != Activation::kSigmoid || name == "sigmoid";
}

// out[m][c] = act(gate[m][c]) * up[m][c] over m rows of c columns; gate and up have stride ldi, out has ldo.
using ActivateFn = void (*)(Activation act, const float* gate, const float* up, size_t ldi, int m, int columns,
                            float* out, size_t ldo);

struct Row {
  const char* name;
  ActivateFn activate;
};

// The float row (scalar, avx2, avx512) of that name, or nullptr.
const Row* find_row(const char* name);

// out[m][gate.rows]; gate and up have the same shape, any formats.
void gated_mlp(const quant_linear::Row& linear, const Row& row, Parallel& threads, const Weight& gate, const Weight& up,
               Activation act, const float* x, int m, float* out);

}  // namespace edgedec::gated_mlp
