// with gated_mlp/activation
//
// GatedMLP behind two products of different formats, which quant_linear.wgsl or float_linear.wgsl wrote, with TERMS 1, as
// [gate | up] of a row. Products of one format need no such step: see quant_linear/sides.wgsl.
//
// Constants: COLUMNS of gate, of up and of out; ACTIVATION, see activation.wgsl; EACH, rows of a token.
// Bindings: 1 both f32[tokens * EACH][2 * COLUMNS]; 2 out f32[tokens * EACH][COLUMNS].
// Grid: (COLUMNS / 64 rounded up, tokens * EACH, 1).

@group(0) @binding(1) var<storage, read> both: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let column = id.x;
  let row = id.y;
  if (column >= COLUMNS || row >= this_pass.tokens * EACH) { return; }
  out[row * COLUMNS + column] = gated(both[row * 2u * COLUMNS + column], both[(row * 2u + 1u) * COLUMNS + column]);
}
