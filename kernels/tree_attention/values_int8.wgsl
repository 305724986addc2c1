// with tree_attention/paths
// with tree_attention/sum_values
//
// values.wgsl for a cache of int8 with scales.
//
// Bindings: 1, 2, 3, 5 as in values.wgsl; 4 cache as in prepare_int8.wgsl. Constants, grid, `this_pass`: as in
// values.wgsl.

@group(0) @binding(4) var<storage, read> cache: array<u32>;

const ROW_WORDS: u32 = DIM / 4u + ((DIM + 31u) / 32u + 1u) / 2u;

// Elements 2 pair and 2 pair + 1 of a row, as they are stored, with their scale; and as floats.
fn fetch(row: u32, pair: u32) -> vec2<u32> {
  let begin = row * ROW_WORDS;
  let group = pair / 16u;
  let scale = (cache[begin + DIM / 4u + group / 2u] >> (16u * (group & 1u))) & 0xffffu;
  return vec2<u32>(cache[begin + pair / 2u] >> (16u * (pair & 1u)), scale);
}

fn widened(raw: vec2<u32>) -> vec2<f32> {
  let scale = half_to_float(raw.y);
  let low = f32(bitcast<i32>(raw.x << 24u) >> 24u);
  let high = f32(bitcast<i32>(raw.x << 16u) >> 24u);
  return vec2<f32>(ed_mul(low, scale), ed_mul(high, scale));
}
