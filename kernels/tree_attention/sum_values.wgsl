// A part of values.wgsl and values_int8.wgsl, which have the reading of values in their storage.

@group(0) @binding(1) var<storage, read> paths: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read> sums: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

const THREADS: u32 = 256u;
const EACH: u32 = 4u;     // values and weights that a thread brings at a time
const KEYS: u32 = 128u;   // keys whose values and weights are at hand
const PAIRS: u32 = 8u;    // of elements in a strip
const AT_ONCE: u32 = 8u;  // query heads
const QUERY_HEADS: u32 = HEADS / KV_HEADS;  // of a kv head
const PARTS: u32 = (QUERY_HEADS + AT_ONCE - 1u) / AT_ONCE;

var<workgroup> values: array<vec2<f32>, KEYS * PAIRS>;
var<workgroup> shares: array<f32, KEYS * AT_ONCE>;

// Brings the values of `count` keys from path index `start` on, and their weights for `heads` heads. Places beyond them
// get copies. plane: the first row of the values; strip: its first pair.
fn bring(thread: u32, path: Path, start: u32, count: u32, plane: u32, strip: u32, query: u32, heads: u32) {
  // Reads everything before it converts and stores: the reads are then under way together.
  var raw: array<vec2<u32>, EACH>;
  var share: array<f32, EACH>;
  for (var n = 0u; n < EACH; n++) {
    let i = thread + n * THREADS;
    let key = min(i / PAIRS, count - 1u);
    raw[n] = fetch(plane + slot_of(path, start + key), strip + i % PAIRS);
    let of_head = min(i / KEYS, heads - 1u);
    share[n] = weights[(query + of_head) * STRIDE + start - path.first + min(i % KEYS, count - 1u)];
  }
  for (var n = 0u; n < EACH; n++) {
    let i = thread + n * THREADS;
    values[i] = widened(raw[n]);
    shares[i] = share[n];
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let kv_head = group.y / PARTS;
  let in_group = group.y % PARTS * AT_ONCE;
  let heads = min(AT_ONCE, QUERY_HEADS - in_group);
  let token = group.z;
  let query = token * HEADS + kv_head * QUERY_HEADS + in_group;  // the first of its heads
  let path = path_of(token);
  let plane = ((LAYER * 2u + 1u) * KV_HEADS + kv_head) * CAPACITY;
  let pair = thread % PAIRS;
  let mine = thread / PAIRS;  // head
  var total = vec2<f32>(0.0, 0.0);
  for (var start = path.first; start < path.end; start += KEYS) {
    let count = min(KEYS, path.end - start);
    bring(thread, path, start, count, plane, group.x * PAIRS, query, heads);
    workgroupBarrier();
    if (mine < heads) {
      for (var j = 0u; j < count; j++) {
        let value = values[j * PAIRS + pair];
        let share = shares[mine * KEYS + j];
        total = vec2<f32>(ed_fma(share, value.x, total.x), ed_fma(share, value.y, total.y));
      }
    }
    workgroupBarrier();
  }
  if (mine < heads) {
    let sum = sums[query + mine];
    let at = (query + mine) * DIM + 2u * (group.x * PAIRS + pair);
    out[at] = ed_div(total.x, sum);
    out[at + 1u] = ed_div(total.y, sum);
  }
}
