// QuantEmbedding of a table in floats: widened, then scaled. A workgroup takes one token.
//
// Bindings: 1 weights u32[...], the table; 2 ids u32[tokens]; 3 out f32[tokens][COLS], written.
// Constants: KIND u32, 0 F16, 1 BF16, 2 F32, as in quant_linear/float_linear.wgsl; COLS u32; SCALE f32. FIRST, ROWS
//            u32: the rows of the table that are bound, FIRST a multiple of 16. Tokens of others are left out.
// Grid: (tokens, 1, 1). Of `this_pass`: zero.

@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(2) var<storage, read> ids: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

const TILE: u32 = 16u;
const THREADS: u32 = 64u;

// The number at an index of the table.
fn number(index: u32) -> f32 {
  if (KIND == 2u) {
    return bitcast<f32>(weights[index]);
  }
  let bits = (weights[index / 2u] >> (16u * (index & 1u))) & 0xffffu;
  if (KIND == 1u) {
    return bfloat_to_float(bits);
  }
  return half_to_float(bits);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) place: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  if (ids[place.x] < FIRST || ids[place.x] - FIRST >= ROWS) {
    return;
  }
  let id = ids[place.x] - FIRST;
  let tile = id / TILE * COLS * TILE;
  for (var i = thread; i < COLS; i += THREADS) {
    out[place.x * COLS + i] = ed_mul(number(tile + i * TILE + id % TILE), SCALE);
  }
}
