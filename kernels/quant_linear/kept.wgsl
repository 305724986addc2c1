// Parts of quant_linear.wgsl and float_linear.wgsl for a trimmed head, which has some ids of the vocabulary alone. They
// declare `bias` and `out`.
//
// With KEPT, binding 3 has a list for each tile of 16 ids that holds kept ones: u32[tiles][17], its number, then the
// place of each of its ids among the kept ones, 0xffffffff for the others. The output is f32[tokens][this_pass.kept].

const KEPT_WORDS: u32 = 17u;

// The tile of the weight in the binding that a workgroup computes; its tiles or more: that is none of them.
fn tile_of(place: u32) -> u32 {
  if (KEPT) { return bias[KEPT_WORDS * place] - FIRST / 16u; }
  return place;
}

fn finish_kept(token: u32, place: u32, column: u32, sum: f32) {
  let at = bias[KEPT_WORDS * place + 1u + column];
  if (at < this_pass.kept) { out[token * this_pass.kept + at] = sum; }
}
