// with quant_linear/sides
// with quant_linear/kept
// with gated_mlp/activation
//
// QuantLinear of a weight in floats: acc = fma(x[k], w[k], acc) in ascending inputs k, as quant_linear.h states.
//
// A workgroup computes a tile of 16 outputs for 16 tokens. Of 64 inputs at a time it widens the weights into workgroup
// memory, beside the activations; then invocation (column, token) adds in ascending order.
//
// Constants: KIND, 0 F16, 1 BF16, 2 F32; COLS, inputs; OUTPUTS, FIRST, STRIDE, BIAS, RESIDUAL, HEAD, KEPT, SIDES,
// ACTIVATION as in quant_linear.wgsl. Terms do not matter.
// Bindings: as in quant_linear.wgsl, but 2 is x f32[tokens][COLS].
// Grid: (OUTPUTS / 16 rounded up, or the tiles of a trimmed head; tokens / 16 rounded up, 1).

@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<u32>;
@group(0) @binding(4) var<storage, read> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

const SPAN: u32 = 64u;  // inputs at a time

var<workgroup> part: array<f32, 1024>;  // [input][column]
var<workgroup> inputs: array<f32, 1024>;  // [token][input]

fn weight(tile: u32, input: u32, column: u32) -> f32 {
  if (KIND == 2u) { return bitcast<f32>(packed((tile * COLS + input) * 16u + column)); }
  let word = packed((tile * COLS + input) * 8u + column / 2u);
  let bits = (word >> (16u * (column & 1u))) & 0xffffu;
  if (KIND == 1u) { return bfloat_to_float(bits); }
  return half_to_float(bits);
}

// The sum of a token and a column of a tile. All invocations call it.
fn sum_of(column: u32, y: u32, tile: u32, token: u32, tokens: u32) -> f32 {
  var acc = 0.0;
  for (var first = 0u; first < COLS; first += SPAN) {
    let count = min(SPAN, COLS - first);
    for (var i = y; i < count; i += 16u) { part[i * 16u + column] = weight(tile, first + i, column); }
    for (var i = column; i < count; i += 16u) {
      if (token < tokens) { inputs[y * SPAN + i] = x[token * COLS + first + i]; }
    }
    workgroupBarrier();
    if (token < tokens) {
      for (var i = 0u; i < count; i++) { acc = ed_fma(inputs[y * SPAN + i], part[i * 16u + column], acc); }
    }
    workgroupBarrier();
  }
  return acc;
}

@compute @workgroup_size(16, 16)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) place: vec3<u32>) {
  let column = local.x;
  let tokens = select(this_pass.tokens, this_pass.rows, HEAD);
  let token = place.y * 16u + local.y;
  let tile = tile_of(place.x);
  if (KEPT && tile >= (OUTPUTS + 15u) / 16u) { return; }
  var sums: array<f32, SIDES>;
  for (var side = 0u; side < SIDES; side++) {
    second = side == 1u;
    sums[side] = sum_of(column, local.y, tile, token, tokens);
  }
  if (KEPT) {
    if (token < tokens) { finish_kept(token, place.x, column, sums[0]); }
    return;
  }
  let output = place.x * 16u + column;
  if (token >= tokens || output >= OUTPUTS) { return; }
  let at = FIRST + output;
  var value = of_sides(sums);
  if (BIAS) { value = ed_add(value, bitcast<f32>(bias[at])); }
  if (RESIDUAL) { value = ed_add(value, residual[token * STRIDE + at]); }
  out[token * STRIDE + at] = value;
}
