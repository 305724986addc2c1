// with wgsl/fold
// with tree_attention/heads
//
// prepare.wgsl for a cache of int8 with scales. Order of arithmetic: tree_attention/tree_attention.h and elements.h.
//
// Bindings: 1 to 5 as in prepare.wgsl;
//           6 cache u32[layers][2][KV_HEADS][CAPACITY][ROW_WORDS]: DIM int8 numbers, four a word, then an fp16 scale
//           for every 32 of them, two a word, the last word padded: ROW_WORDS = DIM / 4 + ceil(ceil(DIM / 32) / 2).
// Constants, grid, `this_pass`: as in prepare.wgsl.

@group(0) @binding(6) var<storage, read_write> cache: array<u32>;

const GROUP: u32 = 32u;
const SCALES: u32 = (DIM + GROUP - 1u) / GROUP;
const ROW_WORDS: u32 = DIM / 4u + (SCALES + 1u) / 2u;
const NO_SCALE: u32 = 0x7e00u;  // NaN, for a group that int8 cannot hold

var<workgroup> scales: array<u32, SCALES + 1u>;

// The least fp16 number a with 127 a >= the greatest size in a group of `turned`.
fn scale_of(group: u32) -> u32 {
  var most = 0u;  // the bits of sizes are in the order of sizes
  for (var i = GROUP * group; i < min(GROUP * group + GROUP, DIM); i++) {
    most = max(most, bitcast<u32>(turned[i]) & 0x7fffffffu);
  }
  if (most >= 0x7f800000u) {
    return NO_SCALE;
  }
  var scale = float_to_half(ed_div(bitcast<f32>(most), 127.0));
  if (bitcast<u32>(ed_mul(half_to_float(scale), 127.0)) < most) {
    scale += 1u;
  }
  return select(NO_SCALE, scale, scale < 0x7c00u);
}

// Four int8 numbers from element `at` on.
fn four(at: u32) -> u32 {
  let scale = scales[at / GROUP];
  if (scale == 0u || scale == NO_SCALE) {
    return 0u;
  }
  var word = 0u;
  for (var i = 0u; i < 4u; i++) {
    let whole = i32(ed_round_even(ed_div(turned[at + i], half_to_float(scale))));
    word |= (bitcast<u32>(whole) & 255u) << (8u * i);
  }
  return word;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  turn_head(thread, group.y, group.x);
  if (group.x < HEADS) {
    store_query(thread, group.y, group.x);
    return;
  }
  if (thread < SCALES) {
    scales[thread] = scale_of(thread);
  }
  if (thread == SCALES) {
    scales[SCALES] = 0u;
  }
  workgroupBarrier();
  let row = cache_row(group.y, group.x) * ROW_WORDS;
  for (var i = thread; i < DIM / 4u; i += THREADS) {
    cache[row + i] = four(4u * i);
  }
  for (var i = thread; i < (SCALES + 1u) / 2u; i += THREADS) {
    cache[row + DIM / 4u + i] = scales[2u * i] | (scales[2u * i + 1u] << 16u);
  }
}
