// with wgsl/fold
//
// The last kernel of GatedDelta: the norm of a head's output, and the gate z. Order of arithmetic:
// gated_delta/gated_delta.h. A workgroup takes one head of one token.
//
// Bindings: 1 states_read f32[tokens][V_HEADS][V_DIM] of gated_delta.wgsl; 2 tokens f32[tokens][TOKEN_ROW];
//           3 weight f32[V_DIM]; 4 out f32[tokens][V_HEADS][V_DIM], written.
// Constants: V_HEADS, V_DIM, TOKEN_ROW u32; CHANNELS u32, those of a token before z; EPSILON f32.
// Grid: (V_HEADS, tokens, 1).

@group(0) @binding(1) var<storage, read> states_read: array<f32>;
@group(0) @binding(2) var<storage, read> tokens: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

const LANES: u32 = 16u;
const THREADS: u32 = 64u;

var<workgroup> sums: array<f32, LANES>;
var<workgroup> factor: f32;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let begin = (group.y * V_HEADS + group.x) * V_DIM;
  if (thread < LANES) {
    var sum = 0.0;
    for (var i = thread; i < V_DIM; i += LANES) {
      sum = ed_fma(states_read[begin + i], states_read[begin + i], sum);
    }
    sums[thread] = sum;
  }
  workgroupBarrier();
  if (thread == 0u) {
    factor = ed_div(1.0, ed_sqrt(ed_add(ed_div(ed_fold(sums), f32(V_DIM)), EPSILON)));
  }
  workgroupBarrier();
  for (var i = thread; i < V_DIM; i += THREADS) {
    let normed = ed_mul(ed_mul(states_read[begin + i], factor), weight[i]);
    let z = tokens[group.y * TOKEN_ROW + CHANNELS + group.x * V_DIM + i];
    out[begin + i] = ed_mul(normed, ed_silu(z));
  }
}
