// exp and the activation functions: simd/math16.h says what they compute and how near they are.

const ED_LN2 = array<f32, 2>(-0x1.62e43p-1, 0x1.05c61p-29);  // - ln 2 in two parts
const ED_EXP = array<f32, 4>(0x1.123a2p-7, 0x1.5558f2p-5, 0x1.555492p-3, 0x1.fffffcp-2);

fn ed_exp(value: f32) -> f32 {
  let x = ed_min(89.0, ed_max(-105.0, value));  // operands in this order pass NaN on
  let shifted = ed_fma(x, 0x1.715476p+0, 12582912.0);
  let n = ed_sub(shifted, 12582912.0);
  // A loop, since ed_fma in integers is long: written out, a driver on the processor compiles it for half a minute.
  var r = x;
  var q = 0x1.6a23dp-10;
  for (var i = 0; i < 6; i++) {
    if (i < 2) {
      r = ed_fma(n, ED_LN2[i], r);
    } else {
      q = ed_fma(q, r, ED_EXP[i - 2]);
    }
  }
  let p = ed_add(ed_fma(ed_mul(r, r), q, r), 1.0);
  let power = bitcast<i32>(bitcast<u32>(shifted) - 0x4b400000u);
  let half = power >> 1u;
  let scale0 = bitcast<f32>(u32(half + 127) << 23u);
  let scale1 = bitcast<f32>(u32(power - half + 127) << 23u);
  return ed_mul(ed_mul(p, scale0), scale1);
}

// x / (1 + e^-x)
fn ed_silu(x: f32) -> f32 {
  return ed_div(x, ed_add(1.0, ed_exp(ed_sub(0.0, x))));
}

// x / 2 (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), written as x / (1 + e^(-2u)).
fn ed_gelu_tanh(x: f32) -> f32 {
  let cubic = ed_fma(ed_mul(x, x), 0.044715, 1.0);
  let minus_two_u = ed_mul(ed_mul(x, -1.5957691216057308), cubic);
  return ed_div(x, ed_add(1.0, ed_exp(minus_two_u)));
}

// 1 - 2 / (1 + e^(2x))
fn ed_tanh(x: f32) -> f32 {
  return ed_sub(1.0, ed_div(2.0, ed_add(1.0, ed_exp(ed_add(x, x)))));
}

// cap * tanh(x / cap): nearly x near zero, never beyond cap.
fn ed_softcap(x: f32, cap: f32) -> f32 {
  return ed_mul(cap, ed_tanh(ed_div(x, cap)));
}
