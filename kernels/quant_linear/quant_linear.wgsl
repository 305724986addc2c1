// with quant_linear/formats
//
// QuantLinear of a weight in integers: out[token][FIRST + n] = sum over k of x W, in the order of quant_linear.h.
//
// A workgroup computes a tile of 16 outputs for ROWS rows of activations, a row being a term of a token. Of 16 groups
// at a time, invocation (column, y) unpacks the weights of group y and computes that group's t for all rows; then
// invocation (column, row) adds these in ascending order: acc = fma(t, xscale, acc).
//
// Constants: those of formats.wgsl; RECORDS of a tile; GROUPS of a row of activations, as in quantise.wgsl; OUTPUTS of
// this weight; FIRST, its first column in out; STRIDE, columns of out; TERMS; ROWS, 1 to 16, a multiple of TERMS: few
// where few tokens come (TERMS for one token); BIAS, RESIDUAL, whether there are any; HEAD, as in quantise.wgsl.
// Bindings: 1 weights; 2 activations, from quantise.wgsl; 3 bias f32[STRIDE]; 4 residual f32[tokens][STRIDE];
// 5 out f32[tokens][STRIDE]. Bind the weights for a bias or residual that is not there.
// Grid: (OUTPUTS / 16 rounded up, tokens * TERMS / ROWS rounded up, 1).

@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(2) var<storage, read> acts: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

var<workgroup> products: array<f32, ROWS * 256u>;  // [row][group][column]

struct Group {
  quants: array<u32, 8>,
  scale: vec2<f32>,
  sub: vec2<i32>,  // scales of halves
  least: vec2<i32>,  // minima of halves
}

fn group_at(record: u32, group: u32, column: u32) -> Group {
  var found: Group;
  for (var step = 0u; step < 8u; step++) { found.quants[step] = quants(record, group, step, column); }
  found.scale = scale_min(record, group, column);
  if (HALVES) {
    found.sub = vec2<i32>(sub_scale(record, group, 0u, column), sub_scale(record, group, 1u, column));
    if (MINIMA) { found.least = vec2<i32>(sub_min(record, group, 0u, column), sub_min(record, group, 1u, column)); }
  }
  return found;
}

// The term of a group for the activations at index `at`.
fn term(w: Group, at: u32) -> f32 {
  let x0 = acts[at];
  let x1 = acts[at + 1u];
  let sums = bitcast<vec2<i32>>(acts[at + 2u].yz);
  var dot0 = ed_dot4(w.quants[0], x0.x) + ed_dot4(w.quants[1], x0.y);
  dot0 = dot0 + ed_dot4(w.quants[2], x0.z) + ed_dot4(w.quants[3], x0.w) - i32(OFFSET) * sums.x;
  var dot1 = ed_dot4(w.quants[4], x1.x) + ed_dot4(w.quants[5], x1.y);
  dot1 = dot1 + ed_dot4(w.quants[6], x1.z) + ed_dot4(w.quants[7], x1.w) - i32(OFFSET) * sums.y;
  var sum = dot0 + dot1;
  var low = sums.x + sums.y;
  if (HALVES) {
    sum = w.sub.x * dot0 + w.sub.y * dot1;
    low = w.least.x * sums.x + w.least.y * sums.y;
  }
  let t = ed_mul(f32(sum), w.scale.x);
  if (!MINIMA) { return t; }
  return ed_fma(w.scale.y, f32(low), t);
}

fn finish(token: u32, column: u32, sum: f32) {
  let at = FIRST + column;
  var value = sum;
  if (BIAS) { value = ed_add(value, bias[at]); }
  if (RESIDUAL) { value = ed_add(value, residual[token * STRIDE + at]); }
  out[token * STRIDE + at] = value;
}

@compute @workgroup_size(16, 16)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) place: vec3<u32>) {
  let column = local.x;
  let y = local.y;
  let tokens = select(this_pass.tokens, this_pass.rows, HEAD);
  let first_row = place.y * ROWS;
  let rows = min(ROWS, tokens * TERMS - min(first_row, tokens * TERMS));
  let tile = place.x * RECORDS * WORDS;
  let groups = RECORDS * PER_RECORD;
  var acc = 0.0;
  for (var first = 0u; first < groups; first += 16u) {
    let group = first + y;
    if (group < groups) {
      let w = group_at(tile + group / PER_RECORD * WORDS, group % PER_RECORD, column);
      for (var row = 0u; row < rows; row++) {
        products[(row * 16u + y) * 16u + column] = term(w, ((first_row + row) * GROUPS + group) * 3u);
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
  let output = place.x * 16u + column;
  if (TERMS == 2u) {
    if (y < ROWS) { products[y * 16u + column] = acc; }
    workgroupBarrier();
    if (2u * y < rows && output < OUTPUTS) {
      let both = ed_add(products[32u * y + column], products[32u * y + 16u + column]);
      finish(first_row / 2u + y, output, both);
    }
  } else if (y < rows && output < OUTPUTS) {
    finish(first_row + y, output, acc);
  }
}
