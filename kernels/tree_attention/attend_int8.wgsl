// with wgsl/fold
// with tree_attention/paths
// with tree_attention/attend_path
//
// attend.wgsl for a cache of int8 with scales.
//
// Bindings: as in attend.wgsl, but 3 cache as in prepare_int8.wgsl. Constants, grid, `this_pass`: as in attend.wgsl.

@group(0) @binding(3) var<storage, read> cache: array<u32>;

const ROW_WORDS: u32 = DIM / 4u + ((DIM + 31u) / 32u + 1u) / 2u;

// The fp16 scale of a group of 32 elements of the row that begins at a word.
fn scale_at(begin: u32, group: u32) -> u32 {
  return (cache[begin + DIM / 4u + group / 2u] >> (16u * (group & 1u))) & 0xffffu;
}

// Elements 16 c and on of a row, widened.
fn sixteen(row: u32, c: u32) -> array<f32, 16> {
  let begin = row * ROW_WORDS;
  let scale = half_to_float(scale_at(begin, c / 2u));
  var wide: array<f32, 16>;
  for (var i = 0u; i < 4u; i++) {
    let word = cache[begin + 4u * c + i];
    for (var j = 0u; j < 4u; j++) {
      wide[4u * i + j] = ed_mul(f32(bitcast<i32>(word << (24u - 8u * j)) >> 24u), scale);
    }
  }
  return wide;
}

// An element of a row, as it is stored, with its scale; and as a float.
fn fetch(row: u32, element: u32) -> vec2<u32> {
  let begin = row * ROW_WORDS;
  return vec2<u32>(cache[begin + element / 4u] >> (8u * (element & 3u)), scale_at(begin, element / 32u));
}

fn widened(raw: vec2<u32>) -> f32 {
  return ed_mul(f32(bitcast<i32>(raw.x << 24u) >> 24u), half_to_float(raw.y));
}
