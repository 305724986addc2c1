// GatedProduct: out = act(gate) * values, as gated_mlp/impl.h computes it.
//
// Constants: COLUMNS of a row; FIRST, STRIDE: where a row of values begins within those of its buffer; GELU, SIGMOID bool,
//            whether act is one of these and not silu.
// Bindings: 1 values f32[tokens][STRIDE]; 2 gate f32[tokens][COLUMNS]; 3 out f32[tokens][COLUMNS].
// Grid: (COLUMNS / 64 rounded up, tokens, 1).

@group(0) @binding(1) var<storage, read> values: array<f32>;
@group(0) @binding(2) var<storage, read> gate: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= COLUMNS || id.y >= this_pass.tokens) { return; }
  let at = id.y * COLUMNS + id.x;
  var acted = 0.0;
  if (GELU) {
    acted = ed_gelu_tanh(gate[at]);
  } else if (SIGMOID) {
    acted = ed_div(1.0, ed_add(1.0, ed_exp(ed_sub(0.0, gate[at]))));
  } else {
    acted = ed_silu(gate[at]);
  }
  out[at] = ed_mul(acted, values[id.y * STRIDE + FIRST + id.x]);
}
