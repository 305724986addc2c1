// A part of prepare.wgsl and prepare_int8.wgsl: a head of queries, keys or values through its norm and rotation.

@group(0) @binding(1) var<storage, read> qkv: array<f32>;
@group(0) @binding(2) var<storage, read> rotary: array<f32>;
@group(0) @binding(3) var<storage, read> q_norm: array<f32>;
@group(0) @binding(4) var<storage, read> k_norm: array<f32>;

const LANES: u32 = 16u;
const THREADS: u32 = 64u;

var<workgroup> head: array<f32, DIM>;
var<workgroup> turned: array<f32, DIM>;
var<workgroup> sums: array<f32, LANES>;
var<workgroup> factor: f32;

// The norm of the head in `head`, in place; a value's has no weight. All threads call it.
fn normalise(thread: u32, is_query: bool, is_value: bool) {
  if (thread < LANES) {
    var sum = 0.0;
    for (var i = thread; i < DIM; i += LANES) {
      sum = ed_fma(head[i], head[i], sum);
    }
    sums[thread] = sum;
  }
  workgroupBarrier();
  if (thread == 0u) {
    let mean = ed_div(ed_fold(sums), f32(DIM));
    factor = ed_div(1.0, ed_sqrt(ed_add(mean, EPSILON)));
  }
  workgroupBarrier();
  for (var i = thread; i < DIM; i += THREADS) {
    let normed = ed_mul(head[i], factor);
    let weight = select(k_norm[i], q_norm[i], is_query);
    head[i] = select(ed_mul(normed, weight), normed, is_value);
  }
  workgroupBarrier();
}

// The head in `head` turned and scaled, in `turned`.
fn rotate(thread: u32, token: u32, scale: f32) {
  const HALF = DIM / 2u;
  let step = select(1u, 2u, INTERLEAVED);
  let other = select(HALF, 1u, INTERLEAVED);
  for (var i = thread; i < HALF; i += THREADS) {
    let a = head[i * step];
    let b = head[i * step + other];
    let at = (this_pass.first + token) * DIM + i;
    let c = rotary[at];
    let s = rotary[at + HALF];
    turned[i * step] = ed_mul(ed_sub(ed_mul(a, c), ed_mul(b, s)), scale);
    turned[i * step + other] = ed_mul(ed_add(ed_mul(a, s), ed_mul(b, c)), scale);
  }
}

// The head `part` of a token, as it is stored, in `turned`. Parts are in the order of qkv: queries, keys, values. All
// threads call it.
fn turn_head(thread: u32, token: u32, part: u32) {
  let is_query = part < HEADS;
  let is_value = part >= HEADS + KV_HEADS;
  let begin = (token * select(HEADS + 2u * KV_HEADS, HEADS, SHARED) + part) * DIM;
  for (var i = thread; i < DIM; i += THREADS) {
    head[i] = qkv[begin + i];
  }
  workgroupBarrier();
  if ((Q_NORM && is_query) || (K_NORM && !is_query && !is_value) || (VALUE_NORM && is_value)) {
    normalise(thread, is_query, is_value);
  }
  if (is_value) {
    for (var i = thread; i < DIM; i += THREADS) {
      turned[i] = head[i];
    }
  } else {
    rotate(thread, token, select(1.0, SCALE, is_query));
  }
  workgroupBarrier();
}

// The row of the cache for a head of keys or values. Keys are planes 0 .. KV_HEADS - 1 of a layer, values the next: in
// the order of qkv.
fn cache_row(token: u32, part: u32) -> u32 {
  let plane = LAYER * 2u * KV_HEADS + part - HEADS;
  return plane * CAPACITY + this_pass.length + this_pass.first + token;
}
