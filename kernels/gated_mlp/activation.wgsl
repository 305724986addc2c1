// act(gate) * up, as gated_mlp/impl.h computes it. ACTIVATION: 0 silu, 1 gelu_tanh, 2 clamped_silu.

fn gated(gate: f32, up: f32) -> f32 {
  if (ACTIVATION == 2u) {
    let g = ed_min(7.0, gate);  // operands are in the order that passes NaN on
    let u = ed_max(-7.0, ed_min(7.0, up));
    return ed_mul(ed_div(g, ed_add(1.0, ed_exp(ed_mul(g, -1.702)))), ed_add(u, 1.0));
  }
  var acted = 0.0;
  if (ACTIVATION == 1u) { acted = ed_gelu_tanh(gate); } else { acted = ed_silu(gate); }
  return ed_mul(acted, up);
}
