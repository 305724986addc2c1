// with wgsl/fold
// with tree_attention/heads
//
// The first step of TreeAttention over an fp16 cache: head norms, rotation, scaled queries, and keys and values into
// their slots. Order of arithmetic: tree_attention/tree_attention.h. A workgroup takes one head of one token.
//
// Bindings: 1 qkv f32[tokens][(HEADS + 2 KV_HEADS) DIM], HEADS DIM where SHARED;
//           2 rotary f32[first + tokens][DIM], cosines, then sines;
//           3 q_norm f32[DIM], not read unless Q_NORM; 4 k_norm f32[DIM], not read unless K_NORM (bind rotary);
//           5 queries f32[tokens][HEADS][DIM], written;
//           6 cache u32[layers][2][KV_HEADS][CAPACITY][DIM / 2], two fp16 numbers a word: slot this_pass.length +
//           this_pass.first + token written.
// Constants: HEADS, KV_HEADS, DIM, CAPACITY u32; LAYER u32, the layers in the binding before this one; SCALE, EPSILON
//            f32; INTERLEAVED, Q_NORM, K_NORM, VALUE_NORM bool; SHARED bool, whether another layer writes keys and
//            values.
// Grid: (HEADS + 2 KV_HEADS, tokens, 1), HEADS where SHARED. Of `this_pass`: length, first.

@group(0) @binding(5) var<storage, read_write> queries: array<f32>;
@group(0) @binding(6) var<storage, read_write> cache: array<u32>;

const ROW_WORDS: u32 = DIM / 2u;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  turn_head(thread, group.y, group.x);
  if (group.x < HEADS) {
    for (var i = thread; i < DIM; i += THREADS) {
      queries[(group.y * HEADS + group.x) * DIM + i] = turned[i];
    }
    return;
  }
  let row = cache_row(group.y, group.x) * ROW_WORDS;
  for (var i = thread; i < ROW_WORDS; i += THREADS) {
    cache[row + i] = float_to_half(turned[2u * i]) | (float_to_half(turned[2u * i + 1u]) << 16u);
  }
}
