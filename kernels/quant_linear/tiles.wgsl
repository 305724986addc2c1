// with quant_linear/formats
// with quant_linear/term
//
// QuantLinear of a weight in integers for the many tokens of a prompt; the same results as quant_linear.wgsl.
//
// A workgroup computes two tiles, 32 outputs, for 64 rows of activations, a row being a term of a token. For two groups
// at a time it unpacks the weights and copies the activations into workgroup memory; then invocation (column, y) adds
// what four rows, 4 y and on, get from the column of each tile.
//
// Constants and bindings: those of quant_linear.wgsl without ROWS.
// Grid: (OUTPUTS / 32 rounded up, tokens * TERMS / 64 rounded up, 1).

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
  if (lane >= 128u || group >= groups || (tile + side) * 16u >= OUTPUTS) { return; }
  let record = ((tile + side) * RECORDS + group / PER_RECORD) * WORDS;
  let inside = group % PER_RECORD;
  var found: vec4<u32>;
  for (var step = 0u; step < 4u; step++) { found[step] = quants(record, inside, part * 4u + step, column); }
  quant[((g * 2u + side) * 2u + part) * 16u + column] = found;
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

@compute @workgroup_size(16, 16)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) place: vec3<u32>) {
  let column = local.x;
  let lane = local.y * 16u + column;
  let all = select(this_pass.tokens, this_pass.rows, HEAD) * TERMS;
  let first_row = place.y * SPAN;
  let rows = min(SPAN, all - min(first_row, all));
  let tile = place.x * 2u;
  let groups = RECORDS * PER_RECORD;
  var acc: array<vec4<f32>, 2>;  // [tile][row]
  for (var first = 0u; first < groups; first += 2u) {
    unpack_weights(lane, first, tile);
    copy_inputs(lane, first, first_row, rows);
    workgroupBarrier();
    for (var g = 0u; g < min(2u, groups - first); g++) {
      for (var side = 0u; side < 2u; side++) {
        let at = g * 2u + side;
        let w0 = quant[at * 32u + column];
        let w1 = quant[at * 32u + 16u + column];
        let w = Scales(scales[at * 16u + column], halves[at * 16u + column]);
        for (var i = 0u; i < 4u; i++) {
          if (local.y * 4u + i < rows) {
            let x = (g * SPAN + local.y * 4u + i) * 3u;
            let facts = inputs[x + 2u];
            let t = term(w0, w1, w, inputs[x], inputs[x + 1u], bitcast<vec2<i32>>(facts.yz));
            acc[side][i] = ed_fma(t, bitcast<f32>(facts.x), acc[side][i]);
          }
        }
      }
    }
    workgroupBarrier();
  }
  let row = first_row + local.y * 4u;
  for (var side = 0u; side < 2u; side++) {
    let output = (tile + side) * 16u + column;
    for (var i = 0u; i < 4u; i += TERMS) {
      if (row + i < all && output < OUTPUTS) {
        var sum = acc[side][i];
        if (TERMS == 2u) { sum = ed_add(sum, acc[side][i + TERMS - 1u]); }
        finish((row + i) / TERMS, output, sum);
      }
    }
  }
}
