// with quant_linear/formats
//
// QuantEmbedding: rows of a packed table in integers, as floats. Order of arithmetic:
// quant_embedding/quant_embedding.h. A workgroup takes one token, a thread four elements at a time.
//
// Bindings: 1 weights u32[...], the table; 2 ids u32[tokens]; 3 out f32[tokens][COLS], written.
// Constants: those of quant_linear/formats.wgsl; COLS, RECORDS u32: elements of a row, and records of a tile; SCALE
//            f32. FIRST, ROWS u32: the rows of the table that are bound, FIRST a multiple of 16. Tokens of others are
//            left out.
// Grid: (tokens, 1, 1). Of `this_pass`: zero.

@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(2) var<storage, read> ids: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

fn packed(at: u32) -> u32 {
  return weights[at];
}

const TILE: u32 = 16u;
const THREADS: u32 = 64u;

// Four elements from input 4 step of a group on.
fn elements(record: u32, group: u32, step: u32, column: u32) -> vec4<f32> {
  var scales = scale_min(record, group, column);
  if (HALVES) {
    scales.x = ed_mul(scales.x, scale_of_half(sub_scale(record, group, step / 4u, column)));
    if (MINIMA) {
      scales.y = ed_mul(scales.y, f32(sub_min(record, group, step / 4u, column)));
    }
  }
  let four = quants(record, group, step, column);
  var found: vec4<f32>;
  for (var i = 0u; i < 4u; i++) {
    let quant = (bitcast<i32>(four << (24u - 8u * i)) >> 24u) - i32(OFFSET);
    var value = ed_mul(scales.x, f32(quant));
    if (MINIMA) {
      value = ed_add(value, scales.y);
    }
    found[i] = ed_mul(value, SCALE);
  }
  return found;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) place: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  if (ids[place.x] < FIRST || ids[place.x] - FIRST >= ROWS) {
    return;
  }
  let id = ids[place.x] - FIRST;
  let tile = id / TILE * RECORDS * WORDS;
  for (var first = 4u * thread; first < COLS; first += 4u * THREADS) {
    let group = first / 32u;
    let record = tile + group / PER_RECORD * WORDS;
    let values = elements(record, group % PER_RECORD, first / 4u % 8u, id % TILE);
    for (var i = 0u; i < min(4u, COLS - first); i++) {
      out[place.x * COLS + first + i] = values[i];
    }
  }
}
