// The first step of TreeAttention over an fp16 cache: head norms, rotation, scaled queries, and keys and values into
// their slots. Order of arithmetic: tree_attention/tree_attention.h. A workgroup takes one head of one token.
//
// Bindings: 1 qkv f32[tokens][(HEADS + 2 KV_HEADS) DIM]; 2 rotary f32[tokens][DIM], cosines, then sines;
//           3 q_norm f32[DIM], not read unless Q_NORM; 4 k_norm f32[DIM], not read unless K_NORM (bind rotary);
//           5 queries f32[tokens][HEADS][DIM], written;
//           6 cache u32[layers][2][KV_HEADS][CAPACITY][DIM / 2], two fp16 numbers a word: slot this_pass.length +
//           token written.
// Constants: HEADS, KV_HEADS, DIM, CAPACITY u32; LAYER u32, the layers in the binding before this one; SCALE, EPSILON
//            f32; INTERLEAVED, Q_NORM, K_NORM bool.
// Grid: (HEADS + 2 KV_HEADS, tokens, 1). Of `this_pass`: length.

@group(0) @binding(1) var<storage, read> qkv: array<f32>;
@group(0) @binding(2) var<storage, read> rotary: array<f32>;
@group(0) @binding(3) var<storage, read> q_norm: array<f32>;
@group(0) @binding(4) var<storage, read> k_norm: array<f32>;
@group(0) @binding(5) var<storage, read_write> queries: array<f32>;
@group(0) @binding(6) var<storage, read_write> cache: array<u32>;

const LANES: u32 = 16u;
const THREADS: u32 = 64u;
const ROW_WORDS: u32 = DIM / 2u;

var<workgroup> head: array<f32, DIM>;
var<workgroup> turned: array<f32, DIM>;
var<workgroup> sums: array<f32, LANES>;
var<workgroup> factor: f32;

fn inverse_rms() -> f32 {
  var fold = sums;
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    for (var i = 0u; i < half; i++) {
      fold[i] = ed_add(fold[i], fold[i + half]);
    }
  }
  let mean = ed_div(fold[0], f32(DIM));
  return ed_div(1.0, ed_sqrt(ed_add(mean, EPSILON)));
}

// The norm of the head in `head`, in place. All threads call it.
fn normalise(thread: u32, is_query: bool) {
  if (thread < LANES) {
    var sum = 0.0;
    for (var i = thread; i < DIM; i += LANES) {
      sum = ed_fma(head[i], head[i], sum);
    }
    sums[thread] = sum;
  }
  workgroupBarrier();
  if (thread == 0u) {
    factor = inverse_rms();
  }
  workgroupBarrier();
  for (var i = thread; i < DIM; i += THREADS) {
    let weight = select(k_norm[i], q_norm[i], is_query);
    head[i] = ed_mul(ed_mul(head[i], factor), weight);
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
    let c = rotary[token * DIM + i];
    let s = rotary[token * DIM + HALF + i];
    turned[i * step] = ed_mul(ed_sub(ed_mul(a, c), ed_mul(b, s)), scale);
    turned[i * step + other] = ed_mul(ed_add(ed_mul(a, s), ed_mul(b, c)), scale);
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let part = group.x;
  let token = group.y;
  let is_query = part < HEADS;
  let is_value = part >= HEADS + KV_HEADS;
  let begin = (token * (HEADS + 2u * KV_HEADS) + part) * DIM;
  for (var i = thread; i < DIM; i += THREADS) {
    head[i] = qkv[begin + i];
  }
  workgroupBarrier();
  if ((Q_NORM && is_query) || (K_NORM && !is_query && !is_value)) {
    normalise(thread, is_query);
  }
  if (!is_value) {
    rotate(thread, token, select(1.0, SCALE, is_query));
  }
  workgroupBarrier();
  if (is_query) {
    for (var i = thread; i < DIM; i += THREADS) {
      queries[(token * HEADS + part) * DIM + i] = turned[i];
    }
    return;
  }
  // Keys are planes 0 .. KV_HEADS - 1 of a layer, values the next: in the order in which heads come in qkv.
  let plane = LAYER * 2u * KV_HEADS + part - HEADS;
  let row = (plane * CAPACITY + this_pass.length + token) * ROW_WORDS;
  for (var i = thread; i < ROW_WORDS; i += THREADS) {
    let low = select(turned[2u * i], head[2u * i], is_value);
    let high = select(turned[2u * i + 1u], head[2u * i + 1u], is_value);
    cache[row + i] = float_to_half(low) | (float_to_half(high) << 16u);
  }
}
