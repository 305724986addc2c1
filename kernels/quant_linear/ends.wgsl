// Parts that the kernels of QuantLinear in integers share: bindings, and the end of an output. quant_linear.wgsl says which
// constants and bindings these are.

@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(2) var<storage, read> acts: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> bias: array<u32>;
@group(0) @binding(4) var<storage, read> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

fn finish(token: u32, column: u32, sum: f32) {
  let at = FIRST + column;
  var value = sum;
  if (BIAS) { value = ed_add(value, bitcast<f32>(bias[at])); }
  if (RESIDUAL) { value = ed_add(value, residual[token * STRIDE + at]); }
  out[token * STRIDE + at] = value;
}
