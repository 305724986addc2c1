// Floats taken apart into integers and put together again, for the exact variants.

// The biased exponent and the fraction, its leading one at bit 23, of the bits of a positive finite number.
// A subnormal has an exponent below 1: its bits, converted to a float, have their leading one in place.
fn ed_unpack(bits: u32) -> vec2<i32> {
  let tiny = bits < 0x800000u;
  let found = select(bits, bitcast<u32>(f32(i32(bits))), tiny);
  return vec2<i32>(i32(found >> 23u) - select(0, 149, tiny), i32((found & 0x7fffffu) | 0x800000u));
}

// The float of a sign (bit 31), the biased exponent that the leading one has, which may be out of range, and a fraction
// whose leading one is bit 31 and whose lowest bit is sticky. Rounds half to even.
fn ed_pack(sign: u32, exponent: i32, fraction: u32) -> f32 {
  let n = min(u32(max(1 - exponent, 0)), 31u);
  let lost = select(0u, fraction << ((32u - n) & 31u), n != 0u);
  let kept = (fraction >> n) | u32(lost != 0u);
  let whole = kept >> 8u;
  let rest = kept & 255u;
  let up = u32(rest > 128u || (rest == 128u && (whole & 1u) == 1u));
  let bits = (u32(max(exponent, 1) - 1) << 23u) + whole + up;
  return bitcast<f32>(sign | select(bits, 0x7f800000u, exponent >= 255));
}
