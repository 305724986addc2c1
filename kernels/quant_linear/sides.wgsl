// Weights of a product, for the kernels of QuantLinear. With SIDES = 2 there are two of one format and shape, and they
// compute a gated MLP: `weights` is the gate, and `bias` holds the weight that it multiplies. They declare both.

var<private> second: bool;  // which of them packed() reads

fn packed(at: u32) -> u32 {
  if (SIDES == 2u && second) { return bias[at]; }
  return weights[at];
}

// An output of its sums, one of each side: the product, or the gated one.
fn of_sides(sums: array<f32, SIDES>) -> f32 {
  if (SIDES == 2u) { return gated(sums[0], sums[SIDES - 1u]); }
  return sums[0];
}
