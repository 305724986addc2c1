// with wgsl/fold
// with recurrent/steps
// with recurrent/convolve
// with gated_delta/log
//
// The first kernel of GatedDelta: what a step of a value head needs of its token. Order of arithmetic:
// gated_delta/gated_delta.h. A workgroup takes one head of one step.
//
// Bindings: 1 tokens f32[tokens][TOKEN_ROW]: q, k, v, z, b, a; 2 steps u32[steps][12];
//           3 trail f32[32][TRAIL_ROW]: q, k, v, b, a; 4 conv f32[channels][TAPS];
//           5 decay f32[V_HEADS]; 6 dt_bias f32[V_HEADS];
//           7 have f32[steps][V_HEADS][2 K_DIM + V_DIM + 3], written: q, k, v, then beta, e, k q.
// Constants: K_HEADS, V_HEADS, K_DIM, V_DIM, TAPS, TRAIL_ROW, TOKEN_ROW u32; SCALE f32, 1 / sqrt(K_DIM); TILED bool,
//            whether value head h reads key head h mod K_HEADS.
// Grid: (V_HEADS, steps, 1). Of `this_pass`: tokens.

@group(0) @binding(1) var<storage, read> tokens: array<f32>;
@group(0) @binding(2) var<storage, read> steps: array<u32>;
@group(0) @binding(3) var<storage, read> trail: array<f32>;
@group(0) @binding(4) var<storage, read> conv: array<f32>;
@group(0) @binding(5) var<storage, read> decay: array<f32>;
@group(0) @binding(6) var<storage, read> dt_bias: array<f32>;
@group(0) @binding(7) var<storage, read_write> have: array<f32>;

const LANES: u32 = 16u;
const THREADS: u32 = 64u;
const KEYS: u32 = K_HEADS * K_DIM;
const CHANNELS: u32 = 2u * KEYS + V_HEADS * V_DIM;
const PART: u32 = 2u * K_DIM + V_DIM;
const LEAST: f32 = 0x1.0c6f7ap-20;  // 1e-6, so that no norm is zero

var<workgroup> x: array<f32, 2u * K_DIM>;  // q, then k
var<workgroup> sums: array<f32, LANES>;
var<workgroup> factor: f32;

// Lanes of the sum of x[a + i] x[b + i], in `sums`. All threads call it.
fn products(thread: u32, a: u32, b: u32) {
  if (thread < LANES) {
    var sum = 0.0;
    for (var i = thread; i < K_DIM; i += LANES) {
      sum = ed_fma(x[a + i], x[b + i], sum);
    }
    sums[thread] = sum;
  }
  workgroupBarrier();
}

// The gates of a head: beta for thread 0, the decay for thread 1.
fn gate(thread: u32, i: u32, head: u32) -> f32 {
  let row = row_of(i, TAPS - 1u);  // the token's own
  let column = CHANNELS + thread * V_HEADS + head;
  var y = 0.0;
  if (row < TRAIL_SLOTS) {
    y = trail[row * TRAIL_ROW + column];
  } else {
    y = tokens[(row - TRAIL_SLOTS) * TOKEN_ROW + V_HEADS * V_DIM + column];
  }
  if (thread == 1u) {
    y = ed_add(y, dt_bias[head]);
  }
  let size = bitcast<f32>(bitcast<u32>(y) & 0x7fffffffu);
  let power = ed_exp(ed_sub(0.0, select(y, size, thread == 1u)));
  if (thread == 0u) {
    return ed_div(1.0, ed_add(1.0, power));
  }
  let softplus = ed_add(ed_max(0.0, y), log_one_plus(power));
  return ed_exp(ed_mul(decay[head], softplus));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let head = group.x;
  let i = group.y;
  let at = (i * V_HEADS + head) * (PART + 3u);
  let key = select(head / (V_HEADS / K_HEADS), head % K_HEADS, TILED) * K_DIM;
  for (var c = thread; c < PART; c += THREADS) {
    let of_key = key + select(c, KEYS + c - K_DIM, c >= K_DIM);
    let column = select(of_key, 2u * KEYS + head * V_DIM + c - 2u * K_DIM, c >= 2u * K_DIM);
    let y = ed_silu(convolved(i, column));
    if (c < 2u * K_DIM) {
      x[c] = y;
    } else {
      have[at + c] = y;
    }
  }
  workgroupBarrier();
  for (var which = 0u; which < 2u; which++) {
    let first = which * K_DIM;
    products(thread, first, first);
    if (thread == 0u) {
      factor = ed_div(1.0, ed_sqrt(ed_add(ed_fold(sums), LEAST)));
    }
    workgroupBarrier();
    for (var c = thread; c < K_DIM; c += THREADS) {
      let y = ed_mul(x[first + c], factor);
      x[first + c] = select(ed_mul(y, SCALE), y, which == 1u);
      have[at + first + c] = x[first + c];
    }
    workgroupBarrier();
  }
  products(thread, 0u, K_DIM);
  if (thread < 2u) {
    have[at + PART + thread] = gate(thread, i, head);
  }
  if (thread == 2u) {
    have[at + PART + 2u] = ed_fold(sums);
  }
}
