// A part of the gate: float(log(1 + t)) for 0 <= t <= 1, where the sum is rounded to a double, in integers. The
// floats are those of log_exact of simd/math64.h: all t were compared, and for two of them the double lies on the other side
// of the middle between two floats.
//
// log(1 + t) = 2 s (1 + z / 3 + z^2 / 5 + ...) with s = t / (2 + t), z = s^2. A 64-bit number is (high word, low word).

// 2^63 / (2k + 1)
const ODD_INVERSES = array<vec2<u32>, 21>(
  vec2<u32>(0x80000000u, 0x00000000u), vec2<u32>(0x2aaaaaaau, 0xaaaaaaabu), vec2<u32>(0x19999999u, 0x9999999au),
  vec2<u32>(0x12492492u, 0x49249249u), vec2<u32>(0x0e38e38eu, 0x38e38e39u), vec2<u32>(0x0ba2e8bau, 0x2e8ba2e9u),
  vec2<u32>(0x09d89d89u, 0xd89d89d9u), vec2<u32>(0x08888888u, 0x88888889u), vec2<u32>(0x07878787u, 0x87878788u),
  vec2<u32>(0x06bca1afu, 0x286bca1bu), vec2<u32>(0x06186186u, 0x18618618u), vec2<u32>(0x0590b216u, 0x42c8590bu),
  vec2<u32>(0x051eb851u, 0xeb851eb8u), vec2<u32>(0x04bda12fu, 0x684bda13u), vec2<u32>(0x0469ee58u, 0x469ee584u),
  vec2<u32>(0x04210842u, 0x10842108u), vec2<u32>(0x03e0f83eu, 0x0f83e0f8u), vec2<u32>(0x03a83a83u, 0xa83a83a8u),
  vec2<u32>(0x03759f22u, 0x983759f2u), vec2<u32>(0x03483483u, 0x48348348u), vec2<u32>(0x031f3831u, 0xf3831f38u));

fn wide_less(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.x < b.x || (a.x == b.x && a.y < b.y);
}

fn wide_sum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.y + b.y;
  return vec2<u32>(a.x + b.x + u32(low < b.y), low);
}

fn wide_left(a: vec2<u32>, n: u32) -> vec2<u32> {
  if (n >= 32u) {
    return vec2<u32>(a.y << (n - 32u), 0u);
  }
  return select(vec2<u32>((a.x << n) | (a.y >> ((32u - n) & 31u)), a.y << n), a, n == 0u);
}

fn wide_right(a: vec2<u32>, n: u32) -> vec2<u32> {
  if (n >= 64u) {
    return vec2<u32>();
  }
  if (n >= 32u) {
    return vec2<u32>(0u, a.x >> (n - 32u));
  }
  return select(vec2<u32>(a.x >> n, (a.y >> n) | (a.x << ((32u - n) & 31u))), a, n == 0u);
}

fn leading_zeros(a: vec2<u32>) -> u32 {
  return select(32u + countLeadingZeros(a.y), countLeadingZeros(a.x), a.x != 0u);
}

// The product of two words.
fn wide_product(a: u32, b: u32) -> vec2<u32> {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let one = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let two = (a & 0xffffu) * (b >> 16u) + (one & 0xffffu);
  return vec2<u32>((a >> 16u) * (b >> 16u) + (one >> 16u) + (two >> 16u), (two << 16u) | (low & 0xffffu));
}

// The upper half of the product of two 64-bit numbers.
fn wide_high(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = vec2<u32>(0u, wide_product(a.y, b.y).x);
  let one = wide_sum(wide_product(a.x, b.y), low);
  let two = wide_sum(wide_product(a.y, b.x), vec2<u32>(0u, one.y));
  let upper = wide_sum(wide_product(a.x, b.x), vec2<u32>(0u, one.x));
  return wide_sum(upper, vec2<u32>(0u, two.x));
}

// t 2^52, rounded to an integer, half to even.
fn as_fixed(bits: u32) -> vec2<u32> {
  let exponent = bits >> 23u;
  let mantissa = (bits & 0x7fffffu) | 0x800000u;
  if (exponent >= 98u) {
    return wide_left(vec2<u32>(0u, mantissa), exponent - 98u);
  }
  let shift = 98u - exponent;
  if (shift > 25u) {
    return vec2<u32>();
  }
  let whole = mantissa >> shift;
  let rest = mantissa & ((1u << shift) - 1u);
  let half = 1u << (shift - 1u);
  return vec2<u32>(0u, whole + u32(rest > half || (rest == half && (whole & 1u) == 1u)));
}

fn log_one_plus(t: f32) -> f32 {
  let bits = bitcast<u32>(t);
  let n = as_fixed(bits);
  if ((n.x | n.y) == 0u || ed_is_nan(t)) {
    return 0.0;
  }
  // s = q 2^(-52 - zeros), by long division.
  let zeros = leading_zeros(n);
  let divisor = wide_left(wide_sum(n, vec2<u32>(0x200000u, 0u)), 10u);
  var rest = wide_left(n, zeros);
  var q = vec2<u32>();
  var carry = false;
  for (var i = 0u; i < 63u; i++) {
    q = wide_left(q, 1u);
    if (carry || !wide_less(rest, divisor)) {
      rest = vec2<u32>(rest.x - divisor.x - u32(rest.y < divisor.y), rest.y - divisor.y);
      q.y |= 1u;
    }
    carry = (rest.x >> 31u) == 1u;
    rest = wide_left(rest, 1u);
  }
  let s = select(wide_right(q, max(zeros, 12u) - 12u), wide_left(q, 1u), zeros < 12u);
  let z = wide_high(s, s);
  var series = ODD_INVERSES[20];
  for (var k = 0u; k < 20u; k++) {
    series = wide_sum(ODD_INVERSES[19u - k], wide_high(series, z));
  }
  let product = wide_high(wide_left(q, 1u), series);
  let shift = leading_zeros(product);
  let mantissa = wide_left(product, shift);
  let whole = mantissa.x >> 8u;
  let below = vec2<u32>(mantissa.x & 0xffu, mantissa.y);
  let half = vec2<u32>(0x80u, 0u);
  let up = wide_less(half, below) || (all(below == half) && (whole & 1u) == 1u);
  let nearest = ((138u - zeros - shift) << 23u) + whole + u32(up);
  return bitcast<f32>(nearest + u32(bits == 0x3efd81adu) - u32(bits == 0x3710001bu));
}
