// Keeps a path of the last pass: copies the rows of its tokens to the first slots after the resident ones, in every
// layer at once. A thread takes one word of a row of one head and copies the tokens in ascending order, so that no
// row is written before it is read.
//
// Bindings: 1 kept u32[this_pass.tokens]: tokens of the last pass, ascending, so kept[i] >= i;
//           2 cache u32[PLANES][CAPACITY][ROW_WORDS]: slot this_pass.length + kept[i] goes to slot this_pass.length +
//           i.
// Constants: PLANES u32, layers * 2 * kv heads of the binding; CAPACITY u32; ROW_WORDS u32, words of a row of any
//            kind (DIM / 2 for fp16).
// Grid: (ceil(PLANES * ROW_WORDS / 64), 1, 1). Of `this_pass`: length (resident tokens before that pass), tokens (kept
//       ones).

@group(0) @binding(1) var<storage, read> kept: array<u32>;
@group(0) @binding(2) var<storage, read_write> cache: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= PLANES * ROW_WORDS) {
    return;
  }
  let column = (id.x / ROW_WORDS * CAPACITY + this_pass.length) * ROW_WORDS + id.x % ROW_WORDS;
  for (var i = 0u; i < this_pass.tokens; i++) {
    if (kept[i] > i) {
      cache[column + i * ROW_WORDS] = cache[column + kept[i] * ROW_WORDS];
    }
  }
}
