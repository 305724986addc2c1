// a / b correctly rounded, in integers: right for every operand.

fn ed_div(a: f32, b: f32) -> f32 {
  let u = bitcast<u32>(a);
  let v = bitcast<u32>(b);
  let x = u & 0x7fffffffu;
  let y = v & 0x7fffffffu;
  let sign = (u ^ v) & 0x80000000u;
  let infinity = 0x7f800000u;
  let nan = 0x7fc00000u + this_pass.zero;
  if (x > infinity || y > infinity) { return bitcast<f32>(nan); }
  if (x == infinity || y == 0u) { return bitcast<f32>(select(sign | infinity, nan, x == y || (x == 0u && y == 0u))); }
  if (y == infinity || x == 0u) { return bitcast<f32>(sign); }
  let m = ed_unpack(x);
  let n = ed_unpack(y);
  let divisor = u32(n.y);
  let less = u32(m.y < n.y);
  var rest = (u32(m.y) << less) - divisor;
  var quotient = 1u;
  for (var i = 0; i < 3; i++) {
    rest = rest << 8u;
    quotient = (quotient << 8u) | (rest / divisor);
    rest = rest % divisor;
  }
  return ed_pack(sign, m.x - n.x + 127 - i32(less), (quotient << 7u) | u32(rest != 0u));
}
