// with quant_linear/formats
// with quant_linear/term
// with quant_linear/ends
// with quant_linear/sides
// with quant_linear/kept
// with gated_mlp/activation
//
// QuantLinear of a weight in integers: out[token][FIRST + n] = sum over k of x W, in the order of quant_linear.h.
//
// A workgroup computes a tile of 16 outputs for ROWS rows of activations, a row being a term of a token. Of 16 groups
// at a time, invocation (column, y) unpacks the weights of group y and computes that group's t for all rows; then
// invocation (column, row) adds these in ascending order: acc = fma(t, xscale, acc).
//
// Constants: those of formats.wgsl; RECORDS of a tile; GROUPS of a row of activations, as in quantise.wgsl; OUTPUTS of
// this weight; FIRST, its first column in out; STRIDE, columns of out; TERMS; ROWS, 1 to 16, a multiple of TERMS: few
// where few tokens come (TERMS for one token); BIAS, RESIDUAL, whether there are any; HEAD, as in quantise.wgsl; KEPT,
// see kept.wgsl; SIDES, see sides.wgsl; ACTIVATION, see gated_mlp/activation.wgsl. With two sides TERMS is 1, and there are
// neither bias, residual nor KEPT.
// Bindings: 1 weights; 2 activations, from quantise.wgsl; 3 bias f32[STRIDE], as words, or the second side;
// 4 residual f32[tokens][STRIDE];
// 5 out f32[tokens][STRIDE]. Bind the weights for a bias or residual that is not there.
// Grid: (OUTPUTS / 16 rounded up, or the tiles of a trimmed head; tokens * TERMS / ROWS rounded up, 1).

var<workgroup> products: array<f32, ROWS * 256u>;  // [row][group][column]

// The sum of row y and a column of the tile that begins at a word, for `rows` rows from the first on. All invocations call it.
fn sum_of(column: u32, y: u32, tile: u32, first_row: u32, rows: u32) -> f32 {
  let groups = RECORDS * PER_RECORD;
  var acc = 0.0;
  for (var first = 0u; first < groups; first += 16u) {
    let group = first + y;
    if (group < groups) {
      let record = tile + group / PER_RECORD * WORDS;
      let inside = group % PER_RECORD;
      let w = scales_of(record, inside, column);
      let w0 = four_quants(record, inside, 0u, column);
      let w1 = four_quants(record, inside, 4u, column);
      for (var row = 0u; row < rows; row++) {
        let at = ((first_row + row) * GROUPS + group) * 3u;
        let sums = bitcast<vec2<i32>>(acts[at + 2u].yz);
        products[(row * 16u + y) * 16u + column] = term(w0, w1, w, acts[at], acts[at + 1u], sums);
      }
    }
    workgroupBarrier();
    if (y < rows) {
      for (var i = 0u; i < min(16u, groups - first); i++) {
        let scale = bitcast<f32>(acts[((first_row + y) * GROUPS + first + i) * 3u + 2u].x);
        acc = ed_fma(products[(y * 16u + i) * 16u + column], scale, acc);
      }
    }
    workgroupBarrier();
  }
  return acc;
}

@compute @workgroup_size(16, 16)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) place: vec3<u32>) {
  let column = local.x;
  let y = local.y;
  let tokens = select(this_pass.tokens, this_pass.rows, HEAD);
  let first_row = place.y * ROWS;
  let rows = min(ROWS, tokens * TERMS - min(first_row, tokens * TERMS));
  let own_tile = tile_of(place.x);
  if (KEPT && own_tile >= (OUTPUTS + 15u) / 16u) { return; }
  var sums: array<f32, SIDES>;
  for (var side = 0u; side < SIDES; side++) {
    second = side == 1u;
    sums[side] = sum_of(column, y, own_tile * RECORDS * WORDS, first_row, rows);
  }
  let output = place.x * 16u + column;
  if (TERMS == 2u) {
    if (y < ROWS) { products[y * 16u + column] = sums[0]; }
    workgroupBarrier();
    if (2u * y < rows && output < OUTPUTS) {
      let both = ed_add(products[32u * y + column], products[32u * y + 16u + column]);
      finish(first_row / 2u + y, output, both);
    }
  } else if (KEPT) {
    if (y < rows) { finish_kept(first_row + y, place.x, column, sums[0]); }
  } else if (y < rows && output < OUTPUTS) {
    finish(first_row + y, output, of_sides(sums));
  }
}
