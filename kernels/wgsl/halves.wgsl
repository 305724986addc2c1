// fp16 and bf16 to fp32 and back, in integers: simd/half.h and float_to_half of simd/vec16.h.

// bits in the lower half of the word; the upper half must be zero.
fn half_to_float(bits: u32) -> f32 {
  let sign = (bits & 0x8000u) << 16u;
  let size = bits & 0x7fffu;
  if (size >= 0x7c00u) { return bitcast<f32>(sign | 0x7f800000u | ((size & 0x3ffu) << 13u) | this_pass.zero); }
  if (size >= 0x400u) { return bitcast<f32>(sign | ((size << 13u) + 0x38000000u)); }
  return bitcast<f32>(bitcast<u32>(f32(size) * 5.9604644775390625e-08) | sign);  // exact
}

fn bfloat_to_float(bits: u32) -> f32 {
  return bitcast<f32>(bits << 16u);
}

fn float_to_half(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) { return sign | 0x7e00u | ((size >> 13u) & 0x3ffu); }
  if (size >= 0x477ff000u) { return sign | 0x7c00u; }
  if (size >= 0x38800000u) {
    return sign | ((size - 0x38000000u + 0xfffu + ((size >> 13u) & 1u)) >> 13u);
  }
  if (size < 0x33000000u) { return sign; }
  let fraction = (size & 0x7fffffu) | 0x800000u;
  let shift = 126u - (size >> 23u);
  let kept = fraction >> shift;
  let rest = fraction & ((1u << shift) - 1u);
  let half = 1u << (shift - 1u);
  return sign | (kept + u32(rest > half || (rest == half && (kept & 1u) == 1u)));
}
