// Writes the rows of the newest tokens of a pass into the trail, behind all that read those in whose place they come.
//
// Bindings: 1 tokens f32[tokens][ROW + SKIP]; 2 trail f32[32][ROW], written.
// Constants: ROW u32; FIRST, SKIP u32: column c of the trail is that of a token, and from FIRST on column c + SKIP.
// Grid: (ceil(ROW / 64), tokens, 1). Of `this_pass`: tokens, length.

@group(0) @binding(1) var<storage, read> tokens: array<f32>;
@group(0) @binding(2) var<storage, read_write> trail: array<f32>;

const TRAIL_SLOTS: u32 = 32u;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= ROW || id.y >= TRAIL_SLOTS) {
    return;
  }
  let token = this_pass.tokens - 1u - id.y;
  let column = select(id.x, id.x + SKIP, id.x >= FIRST);
  trail[(this_pass.length + token) % TRAIL_SLOTS * ROW + id.x] = tokens[token * (ROW + SKIP) + column];
}
