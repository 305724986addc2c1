// The ids of a row's K best entries and their logits, as the host reads them. A thread takes one candidate.
//
// Bindings: 1 best vec2<u32>[rows][K], the last list of best.wgsl; 2 logits u32[rows][ROWS], the bits of floats;
//           3 candidates u32[rows][K][2], written: id, 0xffffffff where there are fewer than K, and the logit's bits;
//           4 ids u32[this_pass.kept], not read unless KEPT (bind what is read twice).
// Constants: K, ROWS u32; KEPT bool: entries are those of a trimmed head, whose ids these are.
// Grid: (ceil(K / 64), rows, 1). Of `this_pass`: rows, kept.

@group(0) @binding(1) var<storage, read> best: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> logits: array<u32>;
@group(0) @binding(3) var<storage, read_write> candidates: array<u32>;
@group(0) @binding(4) var<storage, read> ids: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= K || id.y >= this_pass.rows) {
    return;
  }
  let at = id.y * K + id.x;
  let entry = best[at].y;
  var id_of_entry = entry;
  if (KEPT && entry != 0xffffffffu) {
    id_of_entry = ids[entry];
  }
  candidates[2u * at] = id_of_entry;
  candidates[2u * at + 1u] = 0xff800000u;  // -inf
  if (entry != 0xffffffffu) {
    candidates[2u * at + 1u] = logits[id.y * select(ROWS, this_pass.kept, KEPT) + entry];
  }
}
