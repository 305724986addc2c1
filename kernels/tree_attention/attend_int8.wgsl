// with wgsl/fold
// with tree_attention/paths
// with tree_attention/attend_path
// with tree_attention/mix
//
// attend.wgsl for a cache of int8 with scales: products are integers. A thread computes the scores of a key. Values are
// added in blocks of 64 path indices, several at a time: threads round the weights of four indices, then add four
// elements of the values of a part of a block, and then what sums each element of the output gets from these blocks.
//
// Bindings: as in attend.wgsl, but 1 queries and 3 cache as in prepare_int8.wgsl. Constants, grid, `this_pass`: as in
// attend.wgsl.

@group(0) @binding(1) var<storage, read> queries: array<u32>;
@group(0) @binding(3) var<storage, read> cache: array<u32>;

const WORDS: u32 = DIM / 4u;
const GROUPS: u32 = (DIM + MIXED - 1u) / MIXED;  // of a key
const ROW_WORDS: u32 = WORDS + (GROUPS + 1u) / 2u;
const BLOCK: u32 = 64u;  // path indices whose weights are rounded together
const FOURS: u32 = BLOCK / 4u;
const VALUE_GROUPS: u32 = (DIM + 63u) / 64u;  // of a value
const LEAST: u32 = 0x0d800000u;  // 2^-100: weights times scales below it count for nothing

// With heads of 512 elements all of this takes the 16 KiB that every device has, less 0.3.
const HELD: u32 = min(1024u, 1280u - DIM) / AT_ONCE / BLOCK * BLOCK;
const ROOM: u32 = 2048u / (AT_ONCE * DIM);  // sums of all elements of the output
const BLOCKS: u32 = min(HELD / BLOCK, ROOM);
const SPLIT: u32 = max(1u, min(FOURS, min(ROOM / BLOCKS, THREADS / (WORDS * BLOCKS))));  // parts of a block
const EACH: u32 = (AT_ONCE * DIM + THREADS - 1u) / THREADS;  // elements of the output of a thread
var<workgroup> query: array<u32, AT_ONCE * WORDS>;
var<workgroup> query_scales: array<f32, AT_ONCE * GROUPS>;
var<workgroup> greatest: array<atomic<u32>, BLOCKS * VALUE_GROUPS * AT_ONCE>;
var<workgroup> rounded: array<u32, BLOCKS * VALUE_GROUPS * AT_ONCE * FOURS>;  // four weights each
var<workgroup> room: array<u32, BLOCKS * SPLIT * AT_ONCE * DIM>;  // integer sums; in the end floats

fn mixed_at(i: u32) -> f32 {
  return bitcast<f32>(room[i]);
}

fn set_mixed(i: u32, x: f32) {
  room[i] = bitcast<u32>(x);
}

// The scale of a group of the row of the cache.
fn scale_at(row: u32, group: u32) -> f32 {
  return half_to_float((cache[row * ROW_WORDS + WORDS + group / 2u] >> (16u * (group & 1u))) & 0xffffu);
}

fn scores_of(row: u32) -> array<f32, AT_ONCE> {
  var found: array<f32, AT_ONCE>;
  for (var group = 0u; group < GROUPS; group++) {
    var products = array<i32, AT_ONCE>();  // said, since some compilers begin once, not in each turn
    for (var i = 8u * group; i < min(8u * group + 8u, WORDS); i++) {
      let key = cache[row * ROW_WORDS + i];
      for (var h = 0u; h < AT_ONCE; h++) {
        products[h] += ed_dot4(query[h * WORDS + i], key);
      }
    }
    let scale = scale_at(row, group);
    for (var h = 0u; h < AT_ONCE; h++) {
      found[h] = ed_fma(f32(products[h]), ed_mul(scale, query_scales[h * GROUPS + group]), found[h]);
    }
  }
  for (var h = 0u; h < AT_ONCE; h++) {
    found[h] = capped(found[h]);
  }
  return found;
}

// The row of path index i, or of the nearest one that takes part.
fn value_row(path: Path, plane: u32, i: u32) -> u32 {
  return plane + slot_of(path, clamp(i, path.first, path.end - 1u));
}

// Four weights of a head from j in `shares` on, which is path index i, times scales of values. Those of indices that take
// no part are 0.
fn scaled(path: Path, i: u32, j: u32, scales: vec4<f32>) -> vec4<f32> {
  var found = vec4<f32>();
  for (var k = 0u; k < 4u; k++) {
    if (i + k >= path.first && i + k < path.end) {
      found[k] = ed_mul(shares[j + k], scales[k]);
    }
  }
  return found;
}

// Where four weights are: of block, group of elements, and four indices of a block, for the first head.
struct Four {
  key: u32,     // the first of them, within `shares`
  entry: u32,   // in `greatest`
  within: u32,  // the block, in fours
  scales: vec4<f32>,
}

// Number n of the weights of the blocks from path index `begin` on. offset: of the blocks in `shares`.
fn four_of(n: u32, path: Path, plane: u32, begin: u32, offset: u32) -> Four {
  let block = n / (FOURS * VALUE_GROUPS);
  let group = n / FOURS % VALUE_GROUPS;
  let key = block * BLOCK + n % FOURS * 4u;
  var scales: vec4<f32>;
  for (var k = 0u; k < 4u; k++) {
    scales[k] = scale_at(value_row(path, plane, begin + key + k), group);
  }
  return Four(offset + key, (block * VALUE_GROUPS + group) * AT_ONCE, n % FOURS, scales);
}

// Rounds the weights of `blocks` blocks. All threads call it.
fn round_weights(thread: u32, path: Path, plane: u32, begin: u32, offset: u32, blocks: u32) {
  if (thread < BLOCKS * VALUE_GROUPS * AT_ONCE) {
    atomicStore(&greatest[thread], 0u);
  }
  workgroupBarrier();
  for (var n = thread; n < blocks * VALUE_GROUPS * FOURS; n += THREADS) {
    let four = four_of(n, path, plane, begin, offset);
    for (var h = 0u; h < AT_ONCE; h++) {
      let bits = bitcast<vec4<u32>>(scaled(path, begin - offset + four.key, h * HELD + four.key, four.scales));
      let sizes = bits & vec4<u32>(0x7fffffffu);  // in the order of the floats, NaN the greatest
      atomicMax(&greatest[four.entry + h], max(max(sizes.x, sizes.y), max(sizes.z, sizes.w)));
    }
  }
  workgroupBarrier();
  for (var n = thread; n < blocks * VALUE_GROUPS * FOURS; n += THREADS) {
    let four = four_of(n, path, plane, begin, offset);
    for (var h = 0u; h < AT_ONCE; h++) {
      let most = atomicLoad(&greatest[four.entry + h]);
      var word = 0u;
      if (most >= LEAST && most <= 0x7f800000u) {
        let weights = scaled(path, begin - offset + four.key, h * HELD + four.key, four.scales);
        let factor = ed_div(127.0, bitcast<f32>(most));
        for (var k = 0u; k < 4u; k++) {
          word |= u32(ed_round_even(ed_mul(weights[k], factor))) << (8u * k);
        }
      }
      rounded[(four.entry + h) * FOURS + four.within] = word;
    }
  }
  workgroupBarrier();
}

// Four elements of four values, by values, as four words by elements.
fn by_elements(values: vec4<u32>) -> vec4<u32> {
  let even = (values.xz & vec2<u32>(0x00ff00ffu)) | ((values.yw & vec2<u32>(0x00ff00ffu)) << vec2<u32>(8u));
  let odd = ((values.xz >> vec2<u32>(8u)) & vec2<u32>(0x00ff00ffu)) | (values.yw & vec2<u32>(0xff00ff00u));
  return vec4<u32>((even.x & 0xffffu) | (even.y << 16u), (odd.x & 0xffffu) | (odd.y << 16u),
                   (even.x >> 16u) | (even.y & 0xffff0000u), (odd.x >> 16u) | (odd.y & 0xffff0000u));
}

// Adds the values of `blocks` blocks from path index `begin` on, times their rounded weights. All threads call it.
fn add_values(thread: u32, path: Path, plane: u32, begin: u32, blocks: u32) {
  for (var n = thread; n < blocks * SPLIT * WORDS; n += THREADS) {
    let word = n % WORDS;
    let part = n / WORDS;  // of all blocks
    let block = part / SPLIT;
    let entry = (block * VALUE_GROUPS + word / 16u) * AT_ONCE;
    var found = array<vec4<i32>, AT_ONCE>();
    for (var four = part % SPLIT; four < FOURS; four += SPLIT) {
      var values: vec4<u32>;
      for (var k = 0u; k < 4u; k++) {
        values[k] = cache[value_row(path, plane, begin + block * BLOCK + 4u * four + k) * ROW_WORDS + word];
      }
      let elements = by_elements(values);
      for (var h = 0u; h < AT_ONCE; h++) {
        let weights = rounded[(entry + h) * FOURS + four];
        found[h] += vec4<i32>(ed_dot4(weights, elements.x), ed_dot4(weights, elements.y),
                              ed_dot4(weights, elements.z), ed_dot4(weights, elements.w));
      }
    }
    for (var h = 0u; h < AT_ONCE; h++) {
      for (var k = 0u; k < 4u; k++) {
        room[(part * AT_ONCE + h) * DIM + 4u * word + k] = bitcast<u32>(found[h][k]);
      }
    }
  }
  workgroupBarrier();
}

// `total` and what an element of the output (all heads in one row) gets from the sums of `blocks` blocks.
fn with_sums(total: f32, at: u32, blocks: u32) -> f32 {
  var found = total;
  for (var block = 0u; block < blocks; block++) {
    var sum = 0;
    for (var part = block * SPLIT; part < (block + 1u) * SPLIT; part++) {
      sum += bitcast<i32>(room[part * AT_ONCE * DIM + at]);
    }
    let most = atomicLoad(&greatest[(block * VALUE_GROUPS + at % DIM / 64u) * AT_ONCE + at / DIM]);
    var factor = 0.0;
    if (most > 0x7f800000u) {
      factor = ed_nan();
    } else if (most >= LEAST) {
      factor = ed_div(bitcast<f32>(most), 127.0);
    }
    found = ed_fma(f32(sum), factor, found);
  }
  return found;
}

// The queries of these heads into workgroup memory; heads that are not there get copies.
fn load_queries(thread: u32, begin: u32, count: u32) {
  for (var i = thread; i < AT_ONCE * WORDS; i += THREADS) {
    query[i] = queries[begin + min(i / WORDS, count - 1u) * DIM + i % WORDS];
  }
  for (var i = thread; i < AT_ONCE * GROUPS; i += THREADS) {
    query_scales[i] = bitcast<f32>(queries[begin + min(i / GROUPS, count - 1u) * DIM + WORDS + i % GROUPS]);
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let heads = heads_of(group.x);
  let path = path_of(group.y);
  let begin = path.first / BLOCK * BLOCK;
  let row = (group.y * HEADS + heads.first) * DIM;
  load_queries(thread, row, heads.count);
  find_tops(thread, path, begin, heads);
  var sum = 0.0;
  var total: array<f32, EACH>;
  for (var start = begin; start < path.end; start += HELD) {
    let keys = vec2<u32>(max(start, path.first) - start, min(HELD, path.end - start));
    weigh(thread, path, start, keys, start == begin, heads.keys);
    workgroupBarrier();
    sum = add_lane(thread, sum, keys, start + keys.x - path.first);
    for (var offset = 0u; offset < keys.y; offset += BLOCKS * BLOCK) {
      let blocks = min(BLOCKS, (keys.y - offset + BLOCK - 1u) / BLOCK);
      round_weights(thread, path, heads.values, start + offset, offset, blocks);
      add_values(thread, path, heads.values, start + offset, blocks);
      for (var n = 0u; n < EACH; n++) {
        if (thread + n * THREADS < AT_ONCE * DIM) {
          total[n] = with_sums(total[n], thread + n * THREADS, blocks);
        }
      }
      workgroupBarrier();
    }
  }
  end_sums(thread, sum, heads.first);
  for (var n = 0u; n < EACH; n++) {
    let at = thread + n * THREADS;
    if (at < AT_ONCE * DIM) {
      set_mixed(at, ed_div(total[n], sums[at / DIM]));
    }
  }
  mix(thread, AT_ONCE, true);
  for (var at = thread; at < heads.count * DIM; at += THREADS) {
    out[row + at] = mixed_at(at);
  }
}
