// The products of ShortConv, b x, which are the rows of its trail: short_conv/short_conv.h.
//
// Bindings: 1 projected f32[tokens][b | g | x]; 2 products f32[tokens][HIDDEN], written.
// Constants: HIDDEN u32.
// Grid: (ceil(HIDDEN / 64), tokens, 1).

@group(0) @binding(1) var<storage, read> projected: array<f32>;
@group(0) @binding(2) var<storage, read_write> products: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= HIDDEN) {
    return;
  }
  let at = id.y * 3u * HIDDEN + id.x;
  products[id.y * HIDDEN + id.x] = ed_mul(projected[at], projected[at + 2u * HIDDEN]);
}
