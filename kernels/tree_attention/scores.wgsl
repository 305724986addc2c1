// The scores of TreeAttention over an fp16 cache: <query, key> for all keys that take part. Order of arithmetic:
// tree_attention/tree_attention.h. A thread computes one score, in sixteen lanes; a workgroup 64 keys of one head of
// one token.
//
// Bindings: 1 queries f32[tokens][HEADS][DIM];
//           2 paths u32[tokens][1 + tokens]: the number of ancestors within the pass (0 for a root), then these and the
//           token itself, ascending;
//           3 cache as in prepare.wgsl, as vec4<u32>[...][DIM / 8];
//           4 scores f32[tokens][HEADS][STRIDE], written: entry i - first for index i of a path.
// Constants: HEADS, KV_HEADS, DIM, CAPACITY, LAYER u32 as in prepare.wgsl; WINDOW u32, 0 for none; STRIDE u32:
//            CAPACITY, or WINDOW where that is less.
// Grid: (ceil(min(keys, WINDOW) / 64), HEADS, tokens) with keys = this_pass.length + this_pass.tokens. Of `this_pass`:
//       length, tokens.

@group(0) @binding(1) var<storage, read> queries: array<f32>;
@group(0) @binding(2) var<storage, read> paths: array<u32>;
@group(0) @binding(3) var<storage, read> cache: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> scores: array<f32>;

const THREADS: u32 = 64u;
const ROW: u32 = DIM / 8u;

var<workgroup> query: array<f32, DIM>;

// Adds eight products to the lanes from `lane` on; `at` is the first element.
fn eight(lanes: ptr<function, array<f32, 16>>, lane: u32, at: u32, keys: vec4<u32>) {
  for (var i = 0u; i < 4u; i++) {
    let low = lane + 2u * i;
    let word = keys[i];
    (*lanes)[low] = ed_fma(query[at + 2u * i], half_to_float(word & 0xffffu), (*lanes)[low]);
    (*lanes)[low + 1u] = ed_fma(query[at + 2u * i + 1u], half_to_float(word >> 16u), (*lanes)[low + 1u]);
  }
}

fn dot_row(row: u32) -> f32 {
  var lanes = array<f32, 16>();
  for (var c = 0u; c < DIM / 16u; c++) {
    eight(&lanes, 0u, 16u * c, cache[row + 2u * c]);
    eight(&lanes, 8u, 16u * c + 8u, cache[row + 2u * c + 1u]);
  }
  for (var half = 8u; half > 0u; half /= 2u) {
    for (var i = 0u; i < half; i++) {
      lanes[i] = ed_add(lanes[i], lanes[i + half]);
    }
  }
  return lanes[0];
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let head = group.y;
  let token = group.z;
  let query_at = token * HEADS + head;
  for (var i = thread; i < DIM; i += THREADS) {
    query[i] = queries[query_at * DIM + i];
  }
  workgroupBarrier();
  let path = token * (1u + this_pass.tokens);
  let end = this_pass.length + paths[path] + 1u;
  let first = select(0u, end - min(end, WINDOW), WINDOW > 0u);
  let index = first + group.x * THREADS + thread;
  if (index >= end) {
    return;
  }
  var slot = index;
  if (index >= this_pass.length) {
    slot = this_pass.length + paths[path + 1u + index - this_pass.length];
  }
  let plane = LAYER * 2u * KV_HEADS + head / (HEADS / KV_HEADS);
  scores[query_at * STRIDE + index - first] = dot_row((plane * CAPACITY + slot) * ROW);
}
