// Sums and products rounded each, by ed_fma.

fn ed_mul(a: f32, b: f32) -> f32 {
  return ed_fma(a, b, bitcast<f32>(0x80000000u ^ this_pass.zero));  // + -0 keeps a zero's sign
}

fn ed_add(a: f32, b: f32) -> f32 {
  return ed_fma(a, ed_hide(1.0), b);
}

fn ed_sub(a: f32, b: f32) -> f32 {
  return ed_fma(a, ed_hide(1.0), bitcast<f32>(bitcast<u32>(b) ^ 0x80000000u));
}
