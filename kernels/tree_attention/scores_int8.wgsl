// with wgsl/fold
// with tree_attention/paths
// with tree_attention/score_keys
//
// scores.wgsl for a cache of int8 with scales.
//
// Bindings: 1, 2, 4 as in scores.wgsl; 3 cache as in prepare_int8.wgsl. Constants, grid, `this_pass`: as in
//           scores.wgsl.

@group(0) @binding(3) var<storage, read> cache: array<u32>;

const ROW_WORDS: u32 = DIM / 4u + ((DIM + 31u) / 32u + 1u) / 2u;

// The lanes of the products of `query` and the key in a row of the cache.
fn products(row: u32) -> array<f32, 16> {
  var lanes = array<f32, 16>();
  let begin = row * ROW_WORDS;
  for (var c = 0u; c < DIM / 16u; c++) {
    let group = c / 2u;
    let scale = half_to_float((cache[begin + DIM / 4u + group / 2u] >> (16u * (group & 1u))) & 0xffffu);
    for (var i = 0u; i < 4u; i++) {
      let word = cache[begin + 4u * c + i];
      for (var j = 0u; j < 4u; j++) {
        let number = f32(bitcast<i32>(word << (24u - 8u * j)) >> 24u);
        let lane = 4u * i + j;
        lanes[lane] = ed_fma(query[16u * c + lane], ed_mul(number, scale), lanes[lane]);
      }
    }
  }
  return lanes;
}
