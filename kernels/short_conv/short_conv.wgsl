// with recurrent/steps
// with recurrent/convolve
//
// ShortConv behind its products. Order of arithmetic: short_conv/short_conv.h.
//
// Bindings: 1 projected f32[tokens][b | g | x]; 2 products f32[tokens][HIDDEN]; 3 steps u32[steps][12];
//           4 trail f32[32][HIDDEN]; 5 conv f32[HIDDEN][TAPS]; 6 out f32[tokens][HIDDEN], written.
// Constants: HIDDEN, TAPS u32; TRAIL_ROW, TOKEN_ROW u32, HIDDEN too.
// Grid: (ceil(HIDDEN / 64), tokens, 1). Of `this_pass`: tokens, behind.

@group(0) @binding(1) var<storage, read> projected: array<f32>;
@group(0) @binding(2) var<storage, read> tokens: array<f32>;
@group(0) @binding(3) var<storage, read> steps: array<u32>;
@group(0) @binding(4) var<storage, read> trail: array<f32>;
@group(0) @binding(5) var<storage, read> conv: array<f32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= HIDDEN) {
    return;
  }
  let gate = projected[(id.y * 3u + 1u) * HIDDEN + id.x];
  out[id.y * HIDDEN + id.x] = ed_mul(gate, convolved(this_pass.behind + id.y, id.x));
}
