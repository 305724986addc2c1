// A part of attend.wgsl and attend_int8.wgsl, which have the reading and the sums of keys and values. They declare
//   const HELD                            keys of each head whose scores are held; a multiple of LANES
//   fn scores_of(row: u32) -> array<f32, AT_ONCE>   the scores of the key in a row of the cache for all heads
//
// No score is stored outside a workgroup, which takes up to four query heads of one kv head, for one token. It goes over
// the keys of the path twice: for the greatest score, and for the weights, their sum and the values. In workgroup memory
// it has room for HELD keys of each head: the scores of the first HELD keys stay there in between, and those of the
// others are computed again. A thread computes the scores of a key. Both take all heads at once: a key or value is read
// once.

@group(0) @binding(2) var<storage, read> paths: array<u32>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

const THREADS: u32 = 256u;
const LANES: u32 = 16u;
const QUERY_HEADS: u32 = HEADS / KV_HEADS;  // of a kv head
const PARTS: u32 = (QUERY_HEADS + 3u) / 4u;
const AT_ONCE: u32 = (QUERY_HEADS + PARTS - 1u) / PARTS;  // query heads of a workgroup, at most

var<workgroup> shares: array<f32, AT_ONCE * HELD>;
var<workgroup> tops: array<atomic<u32>, AT_ONCE>;
var<workgroup> lanes: array<f32, AT_ONCE * LANES>;
var<workgroup> sums: array<f32, AT_ONCE>;

// The heads of a workgroup: `count` of them from `first` on, and the first rows of their keys and values.
struct Heads {
  first: u32,
  count: u32,
  keys: u32,
  values: u32,
}

fn heads_of(group: u32) -> Heads {
  let kv_head = group / PARTS;
  let before = group % PARTS * AT_ONCE;
  let keys = (LAYER * 2u * KV_HEADS + kv_head) * CAPACITY;
  return Heads(kv_head * QUERY_HEADS + before, min(AT_ONCE, QUERY_HEADS - before), keys, keys + KV_HEADS * CAPACITY);
}

// Bits in the order of the floats, all above 0.
fn ordered(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

fn from_ordered(bits: u32) -> f32 {
  return bitcast<f32>(select(~bits, bits ^ 0x80000000u, bits >= 0x80000000u));
}

fn capped(score: f32) -> f32 {
  if (SOFTCAP > 0.0) {
    return ed_softcap(score, SOFTCAP);
  }
  return score;
}

// Finds the greatest score of each head, and holds the first scores, from path index `begin` on, which is path.first or
// before it. All threads call it.
fn find_tops(thread: u32, path: Path, begin: u32, heads: Heads) {
  if (thread < AT_ONCE) {
    atomicStore(&tops[thread], 0u);  // not every driver begins with zeros
  }
  workgroupBarrier();
  var mine: array<u32, AT_ONCE>;
  for (var j = path.first - begin + thread; j < path.end - begin; j += THREADS) {
    let scores = scores_of(heads.keys + slot_of(path, begin + j));
    for (var h = 0u; h < AT_ONCE; h++) {
      mine[h] = max(mine[h], ordered(scores[h]));
      if (j < HELD) {
        shares[h * HELD + j] = scores[h];
      }
    }
  }
  for (var h = 0u; h < AT_ONCE; h++) {
    if (SINKS) {
      mine[h] = max(mine[h], ordered(sinks[min(heads.first + h, HEADS - 1u)]));
    }
    atomicMax(&tops[h], mine[h]);
  }
  workgroupBarrier();
}

// Turns the scores of the keys [first, first + count) of a piece of the path, which begins at path index `start`, into
// weights, in `shares`. held: those scores are there.
fn weigh(thread: u32, path: Path, start: u32, keys: vec2<u32>, held: bool, plane: u32) {
  for (var j = keys.x + thread; j < keys.y; j += THREADS) {
    var scores: array<f32, AT_ONCE>;
    if (held) {
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

// `sum` and the weights of a lane among those of [keys.x, keys.y) in `shares`. skipped: weights before keys.x.
fn add_lane(thread: u32, sum: f32, keys: vec2<u32>, skipped: u32) -> f32 {
  var found = sum;
  if (thread < AT_ONCE * LANES) {
    let lane = (thread + LANES - skipped % LANES) % LANES;
    for (var j = keys.x + lane; j < keys.y; j += LANES) {
      found = ed_add(found, shares[thread / LANES * HELD + j]);
    }
  }
  return found;
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
