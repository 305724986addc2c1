// A part of scores.wgsl and scores_int8.wgsl, which have the sums of products of a query and a key in their storage.

@group(0) @binding(1) var<storage, read> queries: array<f32>;
@group(0) @binding(2) var<storage, read> paths: array<u32>;
@group(0) @binding(4) var<storage, read_write> scores: array<f32>;

const THREADS: u32 = 64u;

var<workgroup> query: array<f32, DIM>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let head = group.y;
  let token = group.z;
  let at = token * HEADS + head;
  for (var i = thread; i < DIM; i += THREADS) {
    query[i] = queries[at * DIM + i];
  }
  workgroupBarrier();
  let path = path_of(token);
  let index = path.first + group.x * THREADS + thread;
  if (index >= path.end) {
    return;
  }
  let plane = LAYER * 2u * KV_HEADS + head / (HEADS / KV_HEADS);
  scores[at * STRIDE + index - path.first] = ed_fold(products(plane * CAPACITY + slot_of(path, index)));
}
