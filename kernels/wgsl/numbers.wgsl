// Comparisons and conversions that need no choice. NaN is asked of the bits: compilers may assume that there is none.

fn ed_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn ed_is_finite(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u;
}

fn ed_nan() -> f32 {
  return bitcast<f32>(0x7fc00000u | this_pass.zero);
}

// a > b ? a : b, and a < b ? a : b.
fn ed_max(a: f32, b: f32) -> f32 {
  return select(b, a, a > b && !ed_is_nan(a) && !ed_is_nan(b));
}

fn ed_min(a: f32, b: f32) -> f32 {
  return select(b, a, a < b && !ed_is_nan(a) && !ed_is_nan(b));
}

// The integer nearest to x, half to even. A zero keeps its sign.
fn ed_round_even(x: f32) -> f32 {
  let sign = bitcast<u32>(x) & 0x80000000u;
  let size = bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu);
  if (!(bitcast<u32>(size) < 0x4b000000u)) { return x; }
  let whole = ed_sub(ed_add(size, 8388608.0), 8388608.0);
  return bitcast<f32>(bitcast<u32>(whole) | sign);
}
