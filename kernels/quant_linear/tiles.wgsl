// with quant_linear/formats
// with quant_linear/term
// with quant_linear/ends
// with quant_linear/sides
// with gated_mlp/activation
//
// QuantLinear of a weight in integers for the many tokens of a prompt; the same results as quant_linear.wgsl.
//
// A workgroup computes two tiles, 32 outputs, for 64 rows of activations, a row being a term of a token. Both are of one
// weight, or one of each side. For two groups
// at a time it unpacks the weights and copies the activations into workgroup memory; then invocation (column, y) adds
// what four rows, 4 y and on, get from the column of each tile.
//
// Constants and bindings: those of quant_linear.wgsl without ROWS.
// Grid: (OUTPUTS * SIDES / 32 rounded up, tokens * TERMS / 64 rounded up, 1).

const SPAN: u32 = 64u;  // rows

var<workgroup> quant: array<vec4<u32>, 128>;  // [group][tile][four steps][column]
var<workgroup> scales: array<vec2<f32>, 64>;  // [group][tile][column]
var<workgroup> halves: array<vec4<i32>, 64>;
var<workgroup> inputs: array<vec4<u32>, 384>;  // [group][row][3]

fn unpack_weights(lane: u32, first: u32, tile: u32) {
  let groups = RECORDS * PER_RECORD;
  let column = lane & 15u;
  let part = (lane >> 4u) & 1u;
  let side = (lane >> 5u) & 1u;
  let g = (lane >> 6u) & 1u;
  let group = first + g;
  let own_tile = select(tile + side, tile, SIDES == 2u);
  if (lane >= 128u || group >= groups || own_tile * 16u >= OUTPUTS) { return; }
  second = side == 1u;
  let record = (own_tile * RECORDS + group / PER_RECORD) * WORDS;
  let inside = group % PER_RECORD;
  quant[((g * 2u + side) * 2u + part) * 16u + column] = four_quants(record, inside, part * 4u, column);
  if (part == 0u) {
    let w = scales_of(record, inside, column);
    scales[(g * 2u + side) * 16u + column] = w.scale;
    halves[(g * 2u + side) * 16u + column] = w.halves;
  }
}

fn copy_inputs(lane: u32, first: u32, first_row: u32, rows: u32) {
  for (var i = lane; i < 384u; i += 256u) {
    let group = first + i / 192u;
    let row = i % 192u / 3u;
    if (row < rows && group < GROUPS) { inputs[i] = acts[((first_row + row) * GROUPS + group) * 3u + i % 3u]; }
  }
}

// acc and what the row of the inputs at x adds to it for a column of a tile: (group, tile) `at`.
fn with_group(acc: f32, at: u32, column: u32, x: u32) -> f32 {
  let w = Scales(scales[at * 16u + column], halves[at * 16u + column]);
  let facts = inputs[x + 2u];
  let sums = bitcast<vec2<i32>>(facts.yz);
  let t = term(quant[at * 32u + column], quant[at * 32u + 16u + column], w, inputs[x], inputs[x + 1u], sums);
  return ed_fma(t, bitcast<f32>(facts.x), acc);
}

@compute @workgroup_size(16, 16)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) place: vec3<u32>) {
  let column = local.x;
  let lane = local.y * 16u + column;
  let all = select(this_pass.tokens, this_pass.rows, HEAD) * TERMS;
  let first_row = place.y * SPAN;
  let rows = min(SPAN, all - min(first_row, all));
  let tile = select(place.x * 2u, place.x, SIDES == 2u);
  let groups = RECORDS * PER_RECORD;
  var acc: array<f32, 8>;  // [tile][row]
  for (var first = 0u; first < groups; first += 2u) {
    unpack_weights(lane, first, tile);
    copy_inputs(lane, first, first_row, rows);
    workgroupBarrier();
    for (var g = 0u; g < min(2u, groups - first); g++) {
      let x = (g * SPAN + local.y * 4u) * 3u;
      for (var i = 0u; i < 8u; i++) {
        acc[i] = with_group(acc[i], g * 2u + i / 4u, column, x + (i & 3u) * 3u);
      }
    }
    workgroupBarrier();
  }
  for (var i = 0u; i < 4u && SIDES == 2u; i++) {
    let row = first_row + local.y * 4u + i;
    let output = tile * 16u + column;
    if (row < all && output < OUTPUTS) { finish(row, output, gated(acc[i], acc[i + 4u])); }
  }
  for (var i = 0u; i < 8u && SIDES == 1u; i += TERMS) {
    let row = first_row + local.y * 4u + (i & 3u);
    let output = (tile + i / 4u) * 16u + column;
    if (row < all && output < OUTPUTS) {
      var sum = acc[i];
      if (TERMS == 2u) { sum = ed_add(sum, acc[i + TERMS - 1u]); }
      finish(row / TERMS, output, sum);
    }
  }
}
