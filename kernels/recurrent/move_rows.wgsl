// Keeps a path of the last pass in a trail: copies the rows of its tokens to those of the first slots after the resident
// ones. A thread takes one column and copies the tokens in ascending order, so that no row is written before it is read:
// a pass whose path is kept has fewer tokens than the trail has rows.
//
// Bindings: 1 kept u32[this_pass.tokens]: tokens of the last pass, ascending, so kept[i] >= i; 2 trail f32[32][ROW].
// Constants: ROW u32.
// Grid: (ceil(ROW / 64), 1, 1). Of `this_pass`: length (resident tokens before that pass), tokens (kept ones).

@group(0) @binding(1) var<storage, read> kept: array<u32>;
@group(0) @binding(2) var<storage, read_write> trail: array<u32>;

const TRAIL_SLOTS: u32 = 32u;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= ROW) {
    return;
  }
  for (var i = 0u; i < this_pass.tokens; i++) {
    let place = (this_pass.length + i) % TRAIL_SLOTS;
    let source = (this_pass.length + kept[i]) % TRAIL_SLOTS;
    if (kept[i] > i) {
      trail[place * ROW + id.x] = trail[source * ROW + id.x];
    }
  }
}
