// A part of attend.wgsl and attend_int8.wgsl, which have the reading of keys and values in their storage.
//
// No score is stored outside a workgroup, which takes up to four query heads of one kv head, for one token. It goes over
// the keys of the path twice: for the greatest score, and for the weights, their sum and the values. In workgroup memory
// it has room for HELD keys of each head: the scores of the first HELD keys stay there in between, and those of the
// others are computed again. A thread computes the scores of a key in sixteen lanes. The chain over the keys of a path is
// sequential, so for values threads divide elements. Both take all heads at once: a key or value is widened once.

@group(0) @binding(1) var<storage, read> queries: array<f32>;
@group(0) @binding(2) var<storage, read> paths: array<u32>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

const THREADS: u32 = 256u;
const LANES: u32 = 16u;
const QUERY_HEADS: u32 = HEADS / KV_HEADS;  // of a kv head
const PARTS: u32 = (QUERY_HEADS + 3u) / 4u;
const AT_ONCE: u32 = (QUERY_HEADS + PARTS - 1u) / PARTS;  // query heads of a workgroup, at most
const HELD: u32 = 1536u / AT_ONCE;  // a multiple of LANES
const EACH: u32 = (DIM + THREADS - 1u) / THREADS;  // elements of a thread
const AHEAD: u32 = 4u;  // keys whose values are read before the first of them is used

// With heads of 512 elements these take the 16 KiB that every device has, less 1.5.
var<workgroup> query: array<f32, AT_ONCE * DIM>;
var<workgroup> shares: array<f32, AT_ONCE * HELD>;
var<workgroup> tops: array<atomic<u32>, AT_ONCE>;
var<workgroup> lanes: array<f32, AT_ONCE * LANES>;
var<workgroup> sums: array<f32, AT_ONCE>;

// Bits in the order of the floats, all above 0.
fn ordered(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

fn from_ordered(bits: u32) -> f32 {
  return bitcast<f32>(select(~bits, bits ^ 0x80000000u, bits >= 0x80000000u));
}

// The scores of the key in a row of the cache for all heads.
fn scores_of(row: u32) -> array<f32, AT_ONCE> {
  var products: array<array<f32, LANES>, AT_ONCE>;
  for (var c = 0u; c < DIM / LANES; c++) {
    let key = sixteen(row, c);
    for (var h = 0u; h < AT_ONCE; h++) {
      for (var i = 0u; i < LANES; i++) {
        products[h][i] = ed_fma(query[h * DIM + LANES * c + i], key[i], products[h][i]);
      }
    }
  }
  var found: array<f32, AT_ONCE>;
  for (var h = 0u; h < AT_ONCE; h++) {
    found[h] = ed_fold(products[h]);
    if (SOFTCAP > 0.0) {
      found[h] = ed_softcap(found[h], SOFTCAP);
    }
  }
  return found;
}

// Finds the greatest score of each head, and holds the first scores. plane: the first row of the keys. All threads call it.
fn find_tops(thread: u32, path: Path, plane: u32, head: u32) {
  var mine: array<u32, AT_ONCE>;
  for (var j = thread; j < path.end - path.first; j += THREADS) {
    let scores = scores_of(plane + slot_of(path, path.first + j));
    for (var h = 0u; h < AT_ONCE; h++) {
      mine[h] = max(mine[h], ordered(scores[h]));
      if (j < HELD) {
        shares[h * HELD + j] = scores[h];
      }
    }
  }
  for (var h = 0u; h < AT_ONCE; h++) {
    if (SINKS) {
      mine[h] = max(mine[h], ordered(sinks[min(head + h, HEADS - 1u)]));
    }
    atomicMax(&tops[h], mine[h]);
  }
  workgroupBarrier();
}

// Turns the scores of `count` keys from path index `start` on into weights, in `shares`.
fn weigh(thread: u32, path: Path, plane: u32, start: u32, count: u32) {
  for (var j = thread; j < count; j += THREADS) {
    var scores: array<f32, AT_ONCE>;
    if (start == path.first) {
      for (var h = 0u; h < AT_ONCE; h++) {
        scores[h] = shares[h * HELD + j];
      }
    } else {
      scores = scores_of(plane + slot_of(path, start + j));
    }
    for (var h = 0u; h < AT_ONCE; h++) {
      shares[h * HELD + j] = ed_exp(ed_sub(scores[h], from_ordered(atomicLoad(&tops[h]))));
    }
  }
}

// `total` and the values of an element of `count` keys from path index `start` on, each times its weight for each head.
fn with_values(total: array<f32, AT_ONCE>, path: Path, plane: u32, start: u32, count: u32,
               element: u32) -> array<f32, AT_ONCE> {
  var sum = total;
  for (var j = 0u; j < count; j += AHEAD) {
    var raw: array<vec2<u32>, AHEAD>;
    for (var i = 0u; i < AHEAD; i++) {
      raw[i] = fetch(plane + slot_of(path, start + min(j + i, count - 1u)), element);
    }
    for (var i = 0u; i < min(AHEAD, count - j); i++) {
      let value = widened(raw[i]);
      for (var h = 0u; h < AT_ONCE; h++) {
        sum[h] = ed_fma(shares[h * HELD + j + i], value, sum[h]);
      }
    }
  }
  return sum;
}

// Ends the sums of the weights; a sink's is the last one. `sum`: that of a lane. All threads call it.
fn end_sums(thread: u32, sum: f32, head: u32) {
  if (thread < AT_ONCE * LANES) {
    lanes[thread] = sum;
  }
  workgroupBarrier();
  if (thread < AT_ONCE) {
    var own: array<f32, LANES>;
    for (var i = 0u; i < LANES; i++) {
      own[i] = lanes[thread * LANES + i];
    }
    sums[thread] = ed_fold(own);
    if (SINKS) {
      let sink = sinks[min(head + thread, HEADS - 1u)];
      sums[thread] = ed_add(sums[thread], ed_exp(ed_sub(sink, from_ordered(atomicLoad(&tops[thread])))));
    }
  }
  workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let kv_head = group.x / PARTS;
  let in_group = group.x % PARTS * AT_ONCE;
  let heads = min(AT_ONCE, QUERY_HEADS - in_group);
  let head = kv_head * QUERY_HEADS + in_group;  // the first one
  let token = group.y;
  let path = path_of(token);
  let keys = (LAYER * 2u * KV_HEADS + kv_head) * CAPACITY;
  let values = keys + KV_HEADS * CAPACITY;
  for (var i = thread; i < AT_ONCE * DIM; i += THREADS) {
    let there = min(i, heads * DIM - 1u);  // heads that are not there get copies
    query[i] = queries[(token * HEADS + head) * DIM + there];
  }
  if (thread < AT_ONCE) {
    atomicStore(&tops[thread], 0u);  // not every driver begins with zeros
  }
  workgroupBarrier();
  find_tops(thread, path, keys, head);
  var sum = 0.0;
  var total: array<array<f32, AT_ONCE>, EACH>;
  for (var start = path.first; start < path.end; start += HELD) {
    let count = min(HELD, path.end - start);
    weigh(thread, path, keys, start, count);
    workgroupBarrier();
    if (thread < AT_ONCE * LANES) {
      for (var j = thread % LANES; j < count; j += LANES) {
        sum = ed_add(sum, shares[thread / LANES * HELD + j]);
      }
    }
    for (var n = 0u; n < EACH; n++) {
      let element = thread + n * THREADS;
      if (element < DIM) {
        total[n] = with_values(total[n], path, values, start, count, element);
      }
    }
    workgroupBarrier();
  }
  end_sums(thread, sum, head);
  for (var n = 0u; n < EACH; n++) {
    let element = thread + n * THREADS;
    for (var h = 0u; h < heads && element < DIM; h++) {
      out[(token * HEADS + head + h) * DIM + element] = ed_div(total[n][h], sums[h]);
    }
  }
}
