// The last step of TreeAttention over an fp16 cache: the weighted sum of values. Order of arithmetic:
// tree_attention/tree_attention.h. The chain over the keys of a path is sequential, so threads divide elements: a
// workgroup takes a strip of 16 elements of up to eight query heads that read the same kv head, for one token.
//
// Bindings: 1 paths as in scores.wgsl; 2 weights f32[tokens][HEADS][STRIDE]; 3 sums f32[tokens][HEADS];
//           4 cache u32[layers][2][KV_HEADS][CAPACITY][DIM / 2]; 5 out f32[tokens][HEADS][DIM], written.
// Constants: HEADS, KV_HEADS, DIM, CAPACITY, LAYER, WINDOW, STRIDE u32 as in scores.wgsl.
// Grid: (DIM / 16, KV_HEADS * ceil(HEADS / KV_HEADS / 8), tokens). Of `this_pass`: length, tokens.

@group(0) @binding(1) var<storage, read> paths: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read> sums: array<f32>;
@group(0) @binding(4) var<storage, read> cache: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

const THREADS: u32 = 64u;
const KEYS: u32 = 128u;   // keys whose values and weights are at hand
const STRIP: u32 = 8u;    // words of a strip
const AT_ONCE: u32 = 8u;  // query heads
const ROW_WORDS: u32 = DIM / 2u;
const GROUP: u32 = HEADS / KV_HEADS;
const PARTS: u32 = (GROUP + AT_ONCE - 1u) / AT_ONCE;

var<workgroup> values: array<u32, KEYS * STRIP>;
var<workgroup> shares: array<f32, KEYS * AT_ONCE>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let kv_head = group.y / PARTS;
  let in_group = group.y % PARTS * AT_ONCE;
  let heads = min(AT_ONCE, GROUP - in_group);
  let token = group.z;
  let query = token * HEADS + kv_head * GROUP + in_group;  // the first of its heads
  let path = token * (1u + this_pass.tokens);
  let end = this_pass.length + paths[path] + 1u;
  let first = select(0u, end - min(end, WINDOW), WINDOW > 0u);
  let plane = ((LAYER * 2u + 1u) * KV_HEADS + kv_head) * CAPACITY;
  let word = thread % STRIP;
  let mine = thread / STRIP;  // head
  var low = 0.0;
  var high = 0.0;
  for (var start = first; start < end; start += KEYS) {
    let count = min(KEYS, end - start);
    for (var i = thread; i < count * STRIP; i += THREADS) {
      let index = start + i / STRIP;
      var slot = index;
      if (index >= this_pass.length) {
        slot = this_pass.length + paths[path + 1u + index - this_pass.length];
      }
      values[i] = cache[(plane + slot) * ROW_WORDS + group.x * STRIP + i % STRIP];
    }
    for (var h = 0u; h < heads; h++) {
      for (var j = thread; j < count; j += THREADS) {
        shares[h * KEYS + j] = weights[(query + h) * STRIDE + start - first + j];
      }
    }
    workgroupBarrier();
    if (mine < heads) {
      for (var j = 0u; j < count; j++) {
        let pair = values[j * STRIP + word];
        let share = shares[mine * KEYS + j];
        low = ed_fma(share, half_to_float(pair & 0xffffu), low);
        high = ed_fma(share, half_to_float(pair >> 16u), high);
      }
    }
    workgroupBarrier();
  }
  if (mine < heads) {
    let sum = sums[query + mine];
    let at = (query + mine) * DIM + 2u * (group.x * STRIP + word);
    out[at] = ed_div(low, sum);
    out[at + 1u] = ed_div(high, sum);
  }
}
