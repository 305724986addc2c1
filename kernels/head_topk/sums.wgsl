// with wgsl/fold
//
// The block sums of HeadTopK, and the softcap of its logits. Order of arithmetic: head_topk/head_topk.h and
// head_topk/impl.h. A workgroup takes a block of 1,024 entries of one row.
//
// Bindings: 1 logits f32[rows][entries], replaced in place where SOFTCAP > 0;
//           2 sums f32[rows][blocks][3], written: greatest logit, sum of e = exp(d), sum of e d; blocks =
//           ceil(entries / 1024).
// Constants: ROWS u32, entries of the vocabulary; KEPT bool: the entries are those of a trimmed head, this_pass.kept in
//            place of ROWS; SOFTCAP f32, 0 for none.
// Grid: (blocks, rows, 1). Of `this_pass`: inverse, kept.

@group(0) @binding(1) var<storage, read_write> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> sums: array<f32>;

const BLOCK: u32 = 1024u;
const LANES: u32 = 16u;
const THREADS: u32 = 256u;
const EACH: u32 = BLOCK / THREADS;
const LOWEST: u32 = 0xff800000u;  // -inf

var<workgroup> tops: array<f32, THREADS>;
var<workgroup> terms: array<vec2<f32>, BLOCK>;  // e and d
var<workgroup> totals: array<f32, LANES>;
var<workgroup> weighted: array<f32, LANES>;

// The greatest of all threads' values, in every thread; none is NaN.
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
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  let start = group.x * BLOCK;
  let entries = select(ROWS, this_pass.kept, KEPT);
  let count = min(BLOCK, entries - start);
  let padded = (count + LANES - 1u) / LANES * LANES;
  let row = group.y * entries + start;
  let lowest = bitcast<f32>(LOWEST ^ this_pass.zero);
  var mine: array<f32, EACH>;
  var top = lowest;
  for (var i = 0u; i < EACH; i++) {
    let at = thread + i * THREADS;
    mine[i] = lowest;
    if (at < count) {
      mine[i] = logits[row + at];
      if (SOFTCAP > 0.0) {
        mine[i] = ed_softcap(mine[i], SOFTCAP);
        logits[row + at] = mine[i];
      }
      top = ed_max(mine[i], top);  // without NaN
    }
  }
  top = greatest(thread, top);
  for (var i = 0u; i < EACH; i++) {
    let d = ed_max(-1e30, ed_mul(ed_sub(mine[i], top), this_pass.inverse));  // with NaN
    terms[thread + i * THREADS] = vec2<f32>(ed_exp(d), d);
  }
  workgroupBarrier();
  if (thread < LANES) {
    var lane = vec2<f32>(0.0, 0.0);
    for (var j = thread; j < padded; j += LANES) {
      let term = terms[j];
      lane = vec2<f32>(ed_add(lane.x, term.x), ed_fma(term.x, term.y, lane.y));
    }
    totals[thread] = lane.x;
    weighted[thread] = lane.y;
  }
  workgroupBarrier();
  if (thread == 0u) {
    let at = 3u * (group.y * groups.x + group.x);
    sums[at] = top;
    sums[at + 1u] = ed_fold(totals);
    sums[at + 2u] = ed_fold(weighted);
  }
}
