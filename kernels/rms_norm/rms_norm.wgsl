// with wgsl/fold
//
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
const THREADS: u32 = 256u;
const PART: u32 = 2048u;  // elements at hand for the lanes

var<workgroup> part: array<f32, PART>;
var<workgroup> sums: array<f32, LANES>;
var<workgroup> factor: f32;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = group.x * DIM;
  var sum = 0.0;
  for (var first = 0u; first < DIM; first += PART) {
    let count = min(PART, DIM - first);
    for (var i = thread; i < count; i += THREADS) {
      part[i] = x[row + first + i];
    }
    workgroupBarrier();
    if (thread < LANES) {
      for (var i = thread; i < count; i += LANES) {
        sum = ed_fma(part[i], part[i], sum);
      }
    }
    workgroupBarrier();
  }
  if (thread < LANES) {
    sums[thread] = sum;
  }
  workgroupBarrier();
  if (thread == 0u) {
    let mean = ed_div(ed_fold(sums), f32(DIM));
    factor = ed_div(1.0, ed_sqrt(ed_add(mean, EPSILON)));
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
