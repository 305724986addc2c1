// Rows times one number, rounded.
//
// Bindings: 1 x f32[rows][COLUMNS]; 2 factor f32[1]; 3 y f32[rows][COLUMNS]. y is no other binding.
// Constants: COLUMNS u32.
// Grid: (ceil(COLUMNS / 64), rows, 1). Nothing of `this_pass` but zero is read.

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> factor: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < COLUMNS) {
    y[id.y * COLUMNS + id.x] = ed_mul(x[id.y * COLUMNS + id.x], factor[0]);
  }
}
