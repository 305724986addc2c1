// with wgsl/fold
// with tree_attention/heads
// with tree_attention/mix
//
// prepare.wgsl for a cache of int8 with scales: heads are mixed, and rounded in groups. Order of arithmetic:
// tree_attention/tree_attention.h.
//
// Bindings: 1 to 4 as in prepare.wgsl;
//           5 queries u32[tokens][HEADS][DIM], written: of each head DIM int8 numbers, four a word, then the bits of an
//           f32 scale for every 32 of them; the other words are unused;
//           6 cache u32[layers][2][KV_HEADS][CAPACITY][ROW_WORDS]: DIM int8 numbers, four a word, then room for an fp16
//           scale for every 32 of them, two a word, the last word padded: ROW_WORDS = DIM / 4 + ceil(ceil(DIM / 32) / 2).
//           A value has scales for every 64, then zeros.
// Constants, grid, `this_pass`: as in prepare.wgsl.

@group(0) @binding(5) var<storage, read_write> queries: array<u32>;
@group(0) @binding(6) var<storage, read_write> cache: array<u32>;

const WORDS: u32 = DIM / 4u;
const SCALES: u32 = (DIM + MIXED - 1u) / MIXED;  // of a query or a key, and room for those of a value
const ROW_WORDS: u32 = WORDS + (SCALES + 1u) / 2u;
const NO_SCALE: u32 = 0x7e00u;  // NaN, for a group that int8 cannot hold

var<workgroup> scales: array<u32, SCALES + 1u>;  // bits: of fp16 for the cache, of floats for a query

fn mixed_at(i: u32) -> f32 {
  return turned[i];
}

fn set_mixed(i: u32, x: f32) {
  turned[i] = x;
}

// The bits of the greatest size from element `begin` on; those of infinity or more where one is not finite.
fn greatest(begin: u32, size: u32) -> u32 {
  var most = 0u;  // the bits of sizes are in the order of sizes
  for (var i = begin; i < min(begin + size, DIM); i++) {
    most = max(most, bitcast<u32>(turned[i]) & 0x7fffffffu);
  }
  return most;
}

// The least fp16 number a with 127 a >= the size of these bits.
fn scale_of(most: u32) -> u32 {
  if (most >= 0x7f800000u) {
    return NO_SCALE;
  }
  if (most < 0x32800000u) {  // 2^-26
    return 0u;
  }
  var scale = float_to_half(ed_div(bitcast<f32>(most), 127.0));
  if (bitcast<u32>(ed_mul(half_to_float(scale), 127.0)) < most) {
    scale += 1u;
  }
  return select(NO_SCALE, scale, scale < 0x7c00u);
}

// The bits of the float that a query's greatest size is 127 of; 0 where it is subnormal.
fn query_scale_of(most: u32) -> u32 {
  if (most >= 0x7f800000u) {
    return 0x7fc00000u;
  }
  let scale = bitcast<u32>(ed_div(bitcast<f32>(most), 127.0));
  return select(scale, 0u, scale < 0x800000u);
}

// Four int8 numbers from element `at` on, of a group with this scale.
fn four(at: u32, scale: f32) -> u32 {
  if ((bitcast<u32>(scale) << 1u) == 0u || !ed_is_finite(scale)) {
    return 0u;
  }
  var word = 0u;
  for (var i = 0u; i < 4u; i++) {
    let whole = i32(ed_round_even(ed_div(turned[at + i], scale)));
    word |= (bitcast<u32>(whole) & 255u) << (8u * i);
  }
  return word;
}

fn store_query(thread: u32, begin: u32) {
  if (thread < SCALES) {
    scales[thread] = query_scale_of(greatest(thread * MIXED, MIXED));
  }
  workgroupBarrier();
  for (var i = thread; i < WORDS; i += THREADS) {
    queries[begin + i] = four(4u * i, bitcast<f32>(scales[4u * i / MIXED]));
  }
  if (thread < SCALES) {
    queries[begin + WORDS + thread] = scales[thread];
  }
}

// Stores a key or a value with a scale for each `size` elements.
fn store_row(thread: u32, begin: u32, size: u32) {
  if (thread <= SCALES) {
    scales[thread] = 0u;
    if (thread * size < DIM) {
      scales[thread] = scale_of(greatest(thread * size, size));
    }
  }
  workgroupBarrier();
  for (var i = thread; i < WORDS; i += THREADS) {
    cache[begin + i] = four(4u * i, half_to_float(scales[4u * i / size]));
  }
  for (var i = thread; i < ROW_WORDS - WORDS; i += THREADS) {
    cache[begin + WORDS + i] = scales[2u * i] | (scales[2u * i + 1u] << 16u);
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  turn_head(thread, group.y, group.x);
  mix(thread, 1u, group.x < HEADS);
  if (group.x < HEADS) {
    store_query(thread, (group.y * HEADS + group.x) * DIM);
  } else {
    store_row(thread, cache_row(group.y, group.x) * ROW_WORDS, select(MIXED, 2u * MIXED, group.x >= HEADS + KV_HEADS));
  }
}
