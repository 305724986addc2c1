// The square root correctly rounded, in integers, one bit a step: right for every operand.

fn ed_sqrt(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  if ((bits & 0x7fffffffu) == 0u) { return x; }
  if (bits == 0x7f800000u) { return x; }
  if (bits > 0x7f800000u) { return bitcast<f32>(0x7fc00000u + this_pass.zero); }
  let parts = ed_unpack(bits);
  let odd = u32(parts.x & 1);
  // x = value * 2^even with the leading one of value at bit 31 or 30.
  var value = u32(parts.y) << (8u - odd);
  let even = parts.x - 158 + i32(odd);
  var root = 0u;
  var rest = 0u;
  for (var i = 0; i < 26; i++) {
    rest = (rest << 2u) | (value >> 30u);
    value = value << 2u;
    let trial = (root << 2u) | 1u;
    root = root << 1u;
    if (rest >= trial) {
      rest = rest - trial;
      root = root | 1u;
    }
  }
  return ed_pack(0u, 142 + even / 2, (root << 6u) | u32(rest != 0u));
}
