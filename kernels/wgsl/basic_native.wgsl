// Sums and products rounded each, on the device's own operators.

fn ed_mul(a: f32, b: f32) -> f32 {
  return ed_hide(a * b);
}

fn ed_add(a: f32, b: f32) -> f32 {
  return ed_hide(a + b);
}

fn ed_sub(a: f32, b: f32) -> f32 {
  return ed_hide(a - b);
}
