// a / b correctly rounded, where the device's own operator is so. Hidden, so that no reciprocal takes its place.

fn ed_div(a: f32, b: f32) -> f32 {
  return ed_hide(ed_hide(a) / ed_hide(b));
}
