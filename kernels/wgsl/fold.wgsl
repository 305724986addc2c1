// A part of kernels that sum in sixteen lanes: folds these 16 -> 8 -> 4 -> 2 -> 1. Loops of constant length, so that
// compilers keep the lanes in registers.
fn ed_fold(sums: array<f32, 16>) -> f32 {
  var lanes = sums;
  for (var i = 0; i < 8; i++) { lanes[i] = ed_add(lanes[i], lanes[i + 8]); }
  for (var i = 0; i < 4; i++) { lanes[i] = ed_add(lanes[i], lanes[i + 4]); }
  for (var i = 0; i < 2; i++) { lanes[i] = ed_add(lanes[i], lanes[i + 2]); }
  return ed_add(lanes[0], lanes[1]);
}
