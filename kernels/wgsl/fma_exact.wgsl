// a * b + c rounded once, in integers: right for every operand, subnormals, infinities and NaN among them.
//
// The product (48 bits) and c stand in frames of 64 bits with room for a carry; the one of less weight is shifted right
// and keeps a sticky bit. The sum is normalised and rounded half to even.

// A 64-bit number (high word, low word) shifted right by any n. Its lowest bit also says whether a bit was lost.
fn ed_shift_sticky(value: vec2<u32>, n: u32) -> vec2<u32> {
  let far = n >= 32u;
  let hi = select(value.x, 0u, far);
  let lo = select(value.y, value.x, far);
  let below = select(0u, value.y, far);
  let k = n & 31u;
  let up = (32u - k) & 31u;
  let some = k != 0u;
  let lost = select(0u, lo << up, some) | below;
  let low = select(lo, (lo >> k) | (hi << up), some);
  let shifted = vec2<u32>(hi >> k, low | u32(lost != 0u));
  return select(shifted, vec2<u32>(0u, u32((value.x | value.y) != 0u)), n >= 64u);
}

fn ed_fma_special(a: u32, b: u32, c: u32) -> f32 {
  let infinity = 0x7f800000u;
  let x = a & 0x7fffffffu;
  let y = b & 0x7fffffffu;
  let z = c & 0x7fffffffu;
  let nan = 0x7fc00000u + this_pass.zero;
  let sign = (a ^ b) & 0x80000000u;
  if (x > infinity || y > infinity || z > infinity) { return bitcast<f32>(nan); }
  if (x == infinity || y == infinity) {
    let opposite = z == infinity && (c & 0x80000000u) != sign;
    return bitcast<f32>(select(sign | infinity, nan, x == 0u || y == 0u || opposite));
  }
  if (z == infinity) { return bitcast<f32>(c); }
  // The product is a zero.
  return bitcast<f32>(select(c, c & sign, z == 0u));
}

fn ed_fma(a: f32, b: f32, c: f32) -> f32 {
  let u = bitcast<u32>(a);
  let v = bitcast<u32>(b);
  let w = bitcast<u32>(c);
  let x = u & 0x7fffffffu;
  let y = v & 0x7fffffffu;
  let z = w & 0x7fffffffu;
  if (max(x, max(y, z)) >= 0x7f800000u || x == 0u || y == 0u) { return ed_fma_special(u, v, w); }

  let m = ed_unpack(x);
  let n = ed_unpack(y);
  let m1 = u32(m.y) >> 12u;
  let m0 = u32(m.y) & 4095u;
  let n1 = u32(n.y) >> 12u;
  let n0 = u32(n.y) & 4095u;
  let middle = m1 * n0 + m0 * n1;
  let high = m1 * n1;
  // The product is high * 2^24 + middle * 2^12 + lo0.
  let lo0 = m0 * n0;
  let lo1 = lo0 + (middle << 12u);
  let lo2 = lo1 + (high << 24u);
  let hi = (high >> 8u) + (middle >> 20u) + u32(lo1 < lo0) + u32(lo2 < lo1);
  let p = vec2<u32>((hi << 14u) | (lo2 >> 18u), lo2 << 14u);
  var exponent = m.x + n.x - 314;

  // Both frames with the larger exponent: no branches, which some devices would compute both sides of.
  let o = ed_unpack(z);
  let none = z == 0u;
  let q = vec2<u32>(select(u32(o.y) << 5u, 0u, none), 0u);
  let apart = select(exponent - (o.x - 187), 0, none);
  let below = apart < 0;
  let above = select(p, q, below);
  let shifted = ed_shift_sticky(select(q, p, below), u32(abs(apart)));
  exponent = exponent + max(-apart, 0);

  var sign = select(u ^ v, w, below) & 0x80000000u;
  let minus = ((u ^ v ^ w) >> 31u) == 1u;
  let sum = above.y + shifted.y;
  let more = vec2<u32>(above.x + shifted.x + u32(sum < shifted.y), sum);
  let rest = above.y - shifted.y;
  let less = vec2<u32>(above.x - shifted.x - u32(above.y < shifted.y), rest);
  let over = minus && (less.x >> 31u) == 1u;
  var s = select(more, select(less, vec2<u32>(~less.x + u32(rest == 0u), 0u - rest), over), minus);
  sign = sign ^ select(0u, 0x80000000u, over);
  if ((s.x | s.y) == 0u) { return bitcast<f32>(this_pass.zero); }
  if (s.x == 0u) {
    s = vec2<u32>(s.y, 0u);
    exponent = exponent - 32;
  }
  let lead = countLeadingZeros(s.x);
  let top = (s.x << lead) | select(0u, s.y >> ((32u - lead) & 31u), lead != 0u);
  let sticky = u32((s.y << lead) != 0u);
  return ed_pack(sign, exponent - i32(lead) + 190, top | sticky);
}
