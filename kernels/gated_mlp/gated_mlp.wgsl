// GatedMLP after both products: out = act(gate) * up, as gated_mlp/impl.h computes it. The products are two steps of
// quant_linear.wgsl (or float_linear.wgsl) over the same activations, with TERMS 1; they write [gate | up] of a token.
//
// Constants: COLUMNS of gate, of up and of out; GELU, whether act is gelu_tanh and not silu.
// Bindings: 1 both f32[tokens][2 * COLUMNS]; 2 out f32[tokens][COLUMNS].
// Grid: (COLUMNS / 64 rounded up, tokens, 1).

@group(0) @binding(1) var<storage, read> both: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let column = id.x;
  let token = id.y;
  if (column >= COLUMNS || token >= this_pass.tokens) { return; }
  let gate = both[token * 2u * COLUMNS + column];
  let up = both[(token * 2u + 1u) * COLUMNS + column];
  var acted = 0.0;
  if (GELU) { acted = ed_gelu_tanh(gate); } else { acted = ed_silu(gate); }
  out[token * COLUMNS + column] = ed_mul(acted, up);
}
