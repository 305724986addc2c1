// RMSNorm of rows, with an optional residual. Order of arithmetic: rms_norm/rms_norm.h. A workgroup takes one row.
//
// Bindings: 1 x f32[rows][DIM]; 2 weight f32[DIM]; 3 residual f32[rows][DIM], not read unless RESIDUAL (bind x
//           again);
//           4 y f32[rows][DIM]. y is no other binding.
// Constants: DIM u32; EPSILON f32; RESIDUAL bool.
// Grid: (rows, 1, 1). Nothing of `this_pass` but zero is read, so rows may be those of tokens or of the head.

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

const LANES: u32 = 16u;
const THREADS: u32 = 64u;

var<workgroup> sums: array<f32, LANES>;
var<workgroup> factor: f32;

// 1 / sqrt(mean + epsilon) from the sums of the lanes: folds 16 -> 8 -> 4 -> 2 -> 1.
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

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = group.x * DIM;
  if (thread < LANES) {
    var sum = 0.0;
    for (var i = thread; i < DIM; i += LANES) {
      sum = ed_fma(x[row + i], x[row + i], sum);
    }
    sums[thread] = sum;
  }
  workgroupBarrier();
  if (thread == 0u) {
    factor = inverse_rms();
  }
  workgroupBarrier();
  for (var i = thread; i < DIM; i += THREADS) {
    var value = ed_mul(ed_mul(x[row + i], factor), weight[i]);
    if (RESIDUAL) {
      value = ed_add(value, residual[row + i]);
    }
    y[row + i] = value;
  }
}
