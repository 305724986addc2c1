// with tree_attention/paths
// with tree_attention/sum_values
//
// The last step of TreeAttention over an fp16 cache: the weighted sum of values. Order of arithmetic:
// tree_attention/tree_attention.h. The chain over the keys of a path is sequential, so threads divide elements: a
// workgroup takes a strip of 16 elements of up to eight query heads that read the same kv head, for one token.
//
// Bindings: 1 paths as in scores.wgsl; 2 weights f32[tokens][HEADS][STRIDE]; 3 sums f32[tokens][HEADS];
//           4 cache u32[layers][2][KV_HEADS][CAPACITY][DIM / 2]; 5 out f32[tokens][HEADS][DIM], written.
// Constants: HEADS, KV_HEADS, DIM, CAPACITY, LAYER, WINDOW, STRIDE u32 as in scores.wgsl.
// Grid: (DIM / 16, KV_HEADS * ceil(HEADS / KV_HEADS / 8), tokens). Of `this_pass`: length, first, tokens.

@group(0) @binding(4) var<storage, read> cache: array<u32>;

// Elements 2 pair and 2 pair + 1 of a row, as they are stored; and as floats.
fn fetch(row: u32, pair: u32) -> vec2<u32> {
  return vec2<u32>(cache[row * (DIM / 2u) + pair], 0u);
}

fn widened(raw: vec2<u32>) -> vec2<f32> {
  return vec2<f32>(half_to_float(raw.x & 0xffffu), half_to_float(raw.x >> 16u));
}
