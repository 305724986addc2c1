// The ids of a row's K best entries and their logits, as the host reads them. A thread takes one candidate.
//
// Bindings: 1 best vec2<u32>[rows][K], the last list of best.wgsl; 2 logits u32[rows][ROWS], the bits of floats;
//           3 candidates u32[rows][K][2], written: id, 0xffffffff where there are fewer than K, and the logit's bits.
// Constants: K, ROWS u32.
// Grid: (ceil(K / 64), rows, 1). Of `this_pass`: rows.

@group(0) @binding(1) var<storage, read> best: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> logits: array<u32>;
@group(0) @binding(3) var<storage, read_write> candidates: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= K || id.y >= this_pass.rows) {
    return;
  }
  let at = id.y * K + id.x;
  let entry = best[at].y;
  candidates[2u * at] = entry;
  candidates[2u * at + 1u] = 0xff800000u;  // -inf
  if (entry != 0xffffffffu) {
    candidates[2u * at + 1u] = logits[id.y * ROWS + entry];
  }
}
