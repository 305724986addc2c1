// with wgsl/fold
// with tree_attention/paths
// with tree_attention/score_keys
//
// The scores of TreeAttention over an fp16 cache: <query, key> for all keys that take part. Order of arithmetic:
// tree_attention/tree_attention.h. A thread computes one score, in sixteen lanes; a workgroup 64 keys of one head of
// one token.
//
// Bindings: 1 queries f32[tokens][HEADS][DIM];
//           2 paths u32[t][1 + t] with t = first + tokens: the number of ancestors within the pass (0 for a root), then
//           these and the token itself, ascending. The tokens of this dispatch have the last rows;
//           3 cache as in prepare.wgsl, as vec4<u32>[...][DIM / 8];
//           4 scores f32[tokens][HEADS][STRIDE], written: entry i - first for index i of a path.
// Constants: HEADS, KV_HEADS, DIM, CAPACITY, LAYER u32 as in prepare.wgsl; WINDOW u32, 0 for none; STRIDE u32:
//            CAPACITY, or WINDOW where that is less.
// Grid: (ceil(min(keys, WINDOW) / 64), HEADS, tokens) with keys = this_pass.length + first + tokens. Of `this_pass`:
//       length, first, tokens.

@group(0) @binding(3) var<storage, read> cache: array<vec4<u32>>;

// The lanes of the products of `query` and the key in a row of the cache.
fn products(row: u32) -> array<f32, 16> {
  var lanes = array<f32, 16>();
  for (var c = 0u; c < DIM / 16u; c++) {
    let at = row * (DIM / 8u) + 2u * c;
    let key = array<vec4<u32>, 2>(cache[at], cache[at + 1u]);
    for (var i = 0u; i < 16u; i++) {
      let half = (key[i / 8u][i / 2u % 4u] >> (16u * (i & 1u))) & 0xffffu;
      lanes[i] = ed_fma(query[16u * c + i], half_to_float(half), lanes[i]);
    }
  }
  return lanes;
}
