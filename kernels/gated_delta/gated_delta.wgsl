// with recurrent/steps
//
// The steps of GatedDelta. Order of arithmetic: gated_delta/gated_delta.h. A thread takes one column of a head's state
// through all steps of the pass, in order. The sweep that updates the state for a step also sums up what that one reads.
//
// Bindings: 1 steps u32[steps][12]; 2 have f32[steps][V_HEADS][2 K_DIM + V_DIM + 3] of ingredients.wgsl;
//           3 state f32[V_HEADS][K_DIM][V_DIM], the last committed step's written;
//           4 copies f32[copies][V_HEADS][K_DIM][V_DIM], written: states that a later step begins from;
//           5 out f32[tokens][V_HEADS][V_DIM], written.
// Constants: V_HEADS, K_DIM, V_DIM u32; COLUMNS u32, of a workgroup.
// Grid: (V_DIM / COLUMNS, V_HEADS, 1). Of `this_pass`: tokens, behind.

@group(0) @binding(1) var<storage, read> steps: array<u32>;
@group(0) @binding(2) var<storage, read> have: array<f32>;
@group(0) @binding(3) var<storage, read_write> state: array<f32>;
@group(0) @binding(4) var<storage, read_write> copies: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

const STATE: u32 = V_HEADS * K_DIM * V_DIM;
const BETA: u32 = 2u * K_DIM + V_DIM;

// Where the ingredients of a step and head begin.
fn place_of(i: u32, head: u32) -> u32 {
  return (i * V_HEADS + head) * (BETA + 3u);
}

@compute @workgroup_size(COLUMNS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let head = group.y;
  let column = group.x * COLUMNS + thread;
  let plane = head * K_DIM * V_DIM + column;
  var s = array<f32, K_DIM>();
  // The update that the step before left: s[r] becomes k[r] d + e s[r].
  var left = false;
  var k = 0u;
  var d = 0.0;
  var e = 0.0;
  for (var i = 0u; i < this_pass.behind + this_pass.tokens; i++) {
    let step = step_at(i);
    let at = place_of(i, head);
    if ((step.flags & FOLLOWS) == 0u) {
      left = false;
      for (var r = 0u; r < K_DIM; r++) {
        if (step.parent == NO_COPY) {
          s[r] = state[plane + r * V_DIM];
        } else {
          s[r] = copies[step.parent * STATE + plane + r * V_DIM];
        }
      }
    }
    var by_k = 0.0;
    var by_q = 0.0;
    for (var r = 0u; r < K_DIM; r++) {
      if (left) {
        s[r] = ed_fma(have[k + r], d, ed_mul(e, s[r]));
      }
      by_k = ed_fma(s[r], have[at + K_DIM + r], by_k);
      by_q = ed_fma(s[r], have[at + r], by_q);
    }
    k = at + K_DIM;
    e = have[at + BETA + 1u];
    d = ed_mul(have[at + BETA], ed_sub(have[at + 2u * K_DIM + column], ed_mul(e, by_k)));
    if (step.token != NO_COPY) {
      out[(step.token * V_HEADS + head) * V_DIM + column] = ed_fma(have[at + BETA + 2u], d, ed_mul(e, by_q));
    }
    let settles = (step.flags & SETTLES) != 0u;
    left = (step.flags & LEAF) == 0u;
    if (settles || step.keep != NO_COPY) {
      for (var r = 0u; r < K_DIM; r++) {
        s[r] = ed_fma(have[k + r], d, ed_mul(e, s[r]));
        if (settles) {
          state[plane + r * V_DIM] = s[r];
        } else {
          copies[step.keep * STATE + plane + r * V_DIM] = s[r];
        }
      }
      left = false;
    }
  }
}
