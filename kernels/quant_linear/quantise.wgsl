// Quantises activations to int8 in groups of 32, as quant_linear.h states, and their errors as linear.cc does.
//
// out holds for each row (token * TERMS + term) and group three vec4<u32>, which quant_linear.wgsl reads:
//   eight words of four int8; then the scale's bits, the sums of the first and last 16 int8 (i32), and a zero.
// The second term quantises the error of the first. Inputs past COLS are zeros.
//
// Constants: COLS, inputs of a token; GROUPS, groups of a row: (COLS + 255) / 256 * 8; TERMS, 1 or 2; HEAD, whether the
// tokens are the rows of a head (this_pass.rows) and not those of the pass; EACH, rows of a token, which count as tokens.
// Bindings: 1 x f32[tokens][COLS]; 2 out u32[tokens * TERMS][GROUPS][12].
// Grid: (GROUPS / 8, tokens, 1). Eight invocations a group, four inputs each.

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

var<workgroup> peaks: array<u32, 64>;
var<workgroup> sums: array<i32, 64>;

const LEAST_PEAK: u32 = 0x04000000u;  // the bits of 2^-119

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) place: vec3<u32>) {
  let token = place.y;
  let group = place.x * 8u + lane / 8u;
  let part = lane & 7u;
  let first = group * 32u + part * 4u;
  let there = token < select(this_pass.tokens, this_pass.rows, HEAD) * EACH;
  var value = array<f32, 4>();
  for (var i = 0u; i < 4u; i++) {
    if (there && first + i < COLS) { value[i] = x[token * COLS + first + i]; }
  }
  for (var term = 0u; term < TERMS; term++) {
    var most = 0u;
    for (var i = 0u; i < 4u; i++) { most = max(most, bitcast<u32>(value[i]) & 0x7fffffffu); }
    peaks[lane] = most;
    workgroupBarrier();
    var top = 0u;  // bits of floats without a sign are in the floats' order, infinity and NaN the greatest
    for (var i = 0u; i < 8u; i++) { top = max(top, peaks[(lane & 56u) + i]); }
    let finite = top < 0x7f800000u;
    let zeros = !finite || top < LEAST_PEAK;
    let peak = bitcast<f32>(select(top, 0x3f800000u, zeros));
    let inverse = ed_div(127.0, peak);
    let scale = ed_div(bitcast<f32>(select(0x7fc00000u, top, finite) | this_pass.zero), 127.0);
    var packed = 0u;
    var sum = 0;
    for (var i = 0u; i < 4u; i++) {
      let quant = select(i32(ed_round_even(ed_mul(value[i], inverse))), 0, zeros);
      packed = packed | ((bitcast<u32>(quant) & 255u) << (8u * i));
      sum = sum + quant;
      if (first + i < COLS) { value[i] = ed_sub(value[i], ed_mul(f32(quant), scale)); }
    }
    sums[lane] = sum;
    workgroupBarrier();
    let at = ((token * TERMS + term) * GROUPS + group) * 12u;
    if (there) { out[at + part] = packed; }
    if (there && part == 0u) {
      let sum0 = sums[lane] + sums[lane + 1u] + sums[lane + 2u] + sums[lane + 3u];
      let sum1 = sums[lane + 4u] + sums[lane + 5u] + sums[lane + 6u] + sums[lane + 7u];
      out[at + 8u] = bitcast<u32>(scale);
      out[at + 9u] = bitcast<u32>(sum0);
      out[at + 10u] = bitcast<u32>(sum1);
      out[at + 11u] = 0u;
    }
  }
}
