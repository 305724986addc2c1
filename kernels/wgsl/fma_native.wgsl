// a * b + c rounded once, where the device's own fma is so.

fn ed_fma(a: f32, b: f32, c: f32) -> f32 {
  return fma(a, b, c);
}
