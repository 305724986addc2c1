// with wgsl/fold
// with tree_attention/paths
// with tree_attention/attend_path
//
// The last step of TreeAttention over an fp16 cache: scores, softmax, and the weighted sum of values. Order of
// arithmetic: tree_attention/tree_attention.h. attend_path.wgsl says how a workgroup goes about it.
//
// Bindings: 1 queries f32[tokens][HEADS][DIM];
//           2 paths u32[t][1 + t] with t = first + tokens: the number of ancestors within the pass (0 for a root), then
//           these and the token itself, ascending. The tokens of this dispatch have the last rows;
//           3 cache as in prepare.wgsl, as vec4<u32>[...][DIM / 8];
//           4 sinks f32[HEADS], not read unless SINKS (bind queries);
//           5 out f32[tokens][HEADS][DIM], written.
// Constants: HEADS, KV_HEADS, DIM, CAPACITY, LAYER u32 as in prepare.wgsl; WINDOW u32, 0 for none; SOFTCAP f32, 0 for
//            none; SINKS bool.
// Grid: (KV_HEADS * ceil(HEADS / KV_HEADS / 4), tokens, 1). Of `this_pass`: length, first, tokens.

@group(0) @binding(3) var<storage, read> cache: array<vec4<u32>>;

// Elements 16 c and on of a row, widened.
fn sixteen(row: u32, c: u32) -> array<f32, 16> {
  let at = row * (DIM / 8u) + 2u * c;
  let stored = array<vec4<u32>, 2>(cache[at], cache[at + 1u]);
  var wide: array<f32, 16>;
  for (var i = 0u; i < 16u; i++) {
    wide[i] = half_to_float((stored[i / 8u][i / 2u % 4u] >> (16u * (i & 1u))) & 0xffffu);
  }
  return wide;
}

// An element of a row, as it is stored; and as a float.
fn fetch(row: u32, element: u32) -> vec2<u32> {
  let word = cache[row * (DIM / 8u) + element / 8u][element / 2u % 4u];
  return vec2<u32>((word >> (16u * (element & 1u))) & 0xffffu, 0u);
}

fn widened(raw: vec2<u32>) -> f32 {
  return half_to_float(raw.x);
}
