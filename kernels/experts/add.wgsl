// Experts, the last step: what a token's experts computed, added in ascending order by fused multiply-adds to the residual,
// or to zero.
//
// Bindings: 1 chosen, from choose.wgsl; 2 products f32[tokens][CHOSEN][COLUMNS]; 3 residual f32[tokens][COLUMNS], not read
//           unless RESIDUAL (bind products); 4 out f32[tokens][COLUMNS], written.
// Constants: CHOSEN, COLUMNS u32; RESIDUAL bool.
// Grid: (COLUMNS / 64 rounded up, tokens, 1).

@group(0) @binding(1) var<storage, read> chosen: array<u32>;
@group(0) @binding(2) var<storage, read> products: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let column = id.x;
  let token = id.y;
  if (column >= COLUMNS) { return; }
  var sum = 0.0;
  if (RESIDUAL) { sum = residual[token * COLUMNS + column]; }
  for (var i = 0u; i < CHOSEN; i++) {
    let pair = token * CHOSEN + i;
    sum = ed_fma(bitcast<f32>(chosen[2u * pair + 1u]), products[pair * COLUMNS + column], sum);
  }
  out[token * COLUMNS + column] = sum;
}
