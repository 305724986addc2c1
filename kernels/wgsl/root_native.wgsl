// The square root correctly rounded, where the device's own is so.

fn ed_sqrt(x: f32) -> f32 {
  return ed_hide(sqrt(ed_hide(x)));
}
