// Gather: copies the rows that the head reads. A workgroup takes one row.
//
// Bindings: 1 x u32[tokens][DIM], the bits of floats; 2 rows u32[rows], each below tokens; 3 y u32[rows][DIM].
// Constants: DIM u32.
// Grid: (rows, 1, 1). Of `this_pass`: rows.

@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read> rows: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<u32>;

const THREADS: u32 = 64u;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  if (group.x >= this_pass.rows) {
    return;
  }
  let begin = rows[group.x] * DIM;
  for (var i = thread; i < DIM; i += THREADS) {
    y[group.x * DIM + i] = x[begin + i];
  }
}
