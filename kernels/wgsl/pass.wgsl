// The first file of every shader: the facts of a pass, and what keeps compilers from changing arithmetic.
//
// A shader is constants, then the files of the prelude, then the file of a kernel. The prelude, in this order:
//   pass.wgsl; bits.wgsl; fma_*.wgsl, basic_*.wgsl, divide_*.wgsl, root_*.wgsl, dot_*.wgsl, each `native` or `exact` as
//   the probe found; numbers.wgsl; halves.wgsl; math.wgsl.
// A kernel whose first lines are `// with FOLDER/FILE` needs these files before it.
// Kernels compute floats by the functions ed_* alone, where bits matter:
//   ed_fma(a, b, c)                      a * b + c rounded once
//   ed_mul(a, b), ed_add(a, b), ed_sub(a, b)   rounded each; compilers neither contract nor reorder them
//   ed_div(a, b), ed_sqrt(x)             correctly rounded
//   ed_dot4(a, b) -> i32                 four products of int8, added
//   ed_max(a, b), ed_min(a, b)           the second operand when one is NaN
//   ed_is_nan(x), ed_is_finite(x)        by the bits
//   ed_round_even(x)                     to an integer, half to even
//   ed_nan()                             a NaN
//   half_to_float(bits), bfloat_to_float(bits), float_to_half(x) -> u32
//   ed_exp, ed_silu, ed_gelu_tanh, ed_tanh, ed_softcap(x, cap)
// `pass` is a reserved word of WGSL, hence `this_pass`.

struct Pass {
  tokens: u32,   // tokens of this pass
  length: u32,   // resident tokens before it
  rows: u32,     // rows of the head
  zero: u32,     // 0, which no compiler knows
  inverse: f32,  // 1 / temperature
  first: u32,    // tokens between those and this pass's, whose slots are filled already; `length` leaves them out
  kept: u32,     // ids of a trimmed head
  behind: u32,   // resident tokens that recurrent states do not cover; a pass begins with their steps
}

@group(0) @binding(0) var<uniform> this_pass: Pass;

// x itself, as a value that compilers cannot follow: sums and products are then computed as written.
fn ed_hide(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ this_pass.zero);
}
