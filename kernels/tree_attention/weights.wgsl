// with wgsl/fold
// with tree_attention/paths
//
// The weights of TreeAttention: softcap, exponentials relative to the greatest score, and their sum. Order of
// arithmetic: tree_attention/tree_attention.h. A workgroup takes one head of one token. The same for every kind of
// cache.
//
// Bindings: 1 paths as in scores.wgsl; 2 scores f32[tokens][HEADS][STRIDE], turned into weights in place;
//           3 sums f32[tokens][HEADS], written.
// Constants: HEADS, WINDOW, STRIDE u32 as in scores.wgsl; SOFTCAP f32, 0 for none.
// Grid: (HEADS, tokens, 1). Of `this_pass`: length, first, tokens.

@group(0) @binding(1) var<storage, read> paths: array<u32>;
@group(0) @binding(2) var<storage, read_write> scores: array<f32>;
@group(0) @binding(3) var<storage, read_write> sums: array<f32>;

const LANES: u32 = 16u;
const THREADS: u32 = 128u;
const PART: u32 = 1024u;  // weights at hand for the lanes

var<workgroup> tops: array<f32, THREADS>;
var<workgroup> part: array<f32, PART>;
var<workgroup> lanes: array<f32, LANES>;

// The greatest of all threads' values, in every thread.
fn greatest(thread: u32, mine: f32) -> f32 {
  tops[thread] = mine;
  workgroupBarrier();
  for (var half = THREADS / 2u; half > 0u; half /= 2u) {
    if (thread < half) {
      tops[thread] = ed_max(tops[thread], tops[thread + half]);
    }
    workgroupBarrier();
  }
  return tops[0];
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let head = group.x;
  let token = group.y;
  let path = path_of(token);
  let count = path.end - path.first;
  let begin = (token * HEADS + head) * STRIDE;
  var top = -3.402823466e+38;
  for (var j = thread; j < count; j += THREADS) {
    var score = scores[begin + j];
    if (SOFTCAP > 0.0) {
      score = ed_softcap(score, SOFTCAP);
      scores[begin + j] = score;
    }
    top = ed_max(top, score);
  }
  top = greatest(thread, top);
  var sum = 0.0;
  for (var start = 0u; start < count; start += PART) {
    let here = min(PART, count - start);
    for (var j = thread; j < here; j += THREADS) {
      let weight = ed_exp(ed_sub(scores[begin + start + j], top));
      scores[begin + start + j] = weight;
      part[j] = weight;
    }
    workgroupBarrier();
    if (thread < LANES) {
      for (var j = thread; j < here; j += LANES) {
        sum = ed_add(sum, part[j]);
      }
    }
    workgroupBarrier();
  }
  if (thread < LANES) {
    lanes[thread] = sum;
  }
  workgroupBarrier();
  if (thread == 0u) {
    sums[token * HEADS + head] = ed_fold(lanes);
  }
}
