// Reads quants and scales of packed weights: element.h, four inputs at a time. packing/layout.py defines the records.
//
// A kernel that includes this has `fn packed(at: u32) -> u32`, a word of a tensor as it lies in the bundle. `record` is
// the index of a record's first word. Constants (edgedec/backends/gpu/formats.py has those of each format):
//   WORDS, words of a record; PER_RECORD, groups of a record; BITS of a quant; OFFSET, still to be subtracted from what
//   quants() returns; LO and HI, the first words of the fields; VALUES, 0, or the table of quants that are indices:
//   1 IQ4_NL and IQ4, 2 MXFP4, 3 IQ3X, 4 IQ3S, 5 IQ2, 6 IQ1; MINIMA, whether there are some; SCALES: 0 fp16 of a group,
//   1 exponents, 2 fp16 times six bits, 3 fp16 times an int8 of a half, 4 fp16 times (six bits - 32) of a half, 5 fp16
//   times a nibble of a half, 6 fp16 times 2 n + 1 of a half, 7 fp16 of the record, 8 fp16 times an int8 of a group,
//   9 fp32 times a float of 8 bits of a half. UNIT, a power of two that multiplies fp16 and floats of 8 bits.

const HALVES: bool = (SCALES >= 3u && SCALES <= 6u) || SCALES == 9u;

fn weight_byte(record: u32, index: u32) -> u32 {
  return (packed(record + index / 4u) >> (8u * (index & 3u))) & 255u;
}

fn weight_half(record: u32, index: u32) -> f32 {
  return half_to_float((packed(record + index / 2u) >> (16u * (index & 1u))) & 0xffffu);
}

fn signed_byte(record: u32, index: u32) -> i32 {
  return bitcast<i32>(weight_byte(record, index) << 24u) >> 24u;
}

// The int8 that four indices stand for.
fn weight_values(indices: u32) -> u32 {
  let iq4_nl = vec4<u32>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
  let mxfp4 = vec4<u32>(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);
  var table = iq4_nl;
  if (VALUES == 2u) { table = mxfp4; }
  if (VALUES == 3u) { table = vec4<u32>(0x1c140c04u, 0x3e342c24u, 0xe4ecf4fcu, 0xc2ccd4dcu); }
  if (VALUES == 4u) { table = vec4<u32>(0x07050301u, 0x0f0d0b09u, 0xf9fbfdffu, 0xf1f3f5f7u); }
  if (VALUES == 5u) { table = vec4<u32>(0x002b1908u, 0x00d5e7f8u, 0x00000000u, 0x00000000u); }
  if (VALUES == 6u) { table = vec4<u32>(0x000901f9u, 0x0007fff7u, 0x00000000u, 0x00000000u); }
  var found = 0u;
  for (var i = 0u; i < 32u; i += 8u) {
    let index = (indices >> i) & 15u;
    found = found | (((table[index / 4u] >> (8u * (index & 3u))) & 255u) << i);
  }
  return found;
}

// Quants of inputs 4 step .. 4 step + 3 of a group, as four int8. OFFSET is not yet subtracted.
fn quants(record: u32, group: u32, step: u32, column: u32) -> u32 {
  if (BITS == 8u) { return packed(record + LO + (group * 8u + step) * 16u + column) ^ 0x80808080u; }
  let crumb = 2u * (step & 3u);
  let crumbs = group * 32u + step / 4u * 16u + column;
  let bits = group * 16u + column;
  if (BITS < 4u) {
    let low = (packed(record + LO + crumbs) >> crumb) & 0x03030303u;
    if (BITS == 2u) { return low; }
    let three = low | (((packed(record + HI + bits) >> step) & 0x01010101u) << 2u);
    if (VALUES != 0u) { return weight_values(three); }
    return three;
  }
  let low = (packed(record + LO + group / 2u * 128u + step * 16u + column) >> (4u * (group & 1u))) & 0x0f0f0f0fu;
  if (VALUES != 0u) { return weight_values(low); }
  if (BITS == 5u) { return low | (((packed(record + HI + bits) >> step) & 0x01010101u) << 4u); }
  if (BITS == 6u) { return low | (((packed(record + HI + crumbs) >> crumb) & 0x03030303u) << 4u); }
  return low;
}

// The same of four steps, `first` and on.
fn four_quants(record: u32, group: u32, first: u32, column: u32) -> vec4<u32> {
  return vec4<u32>(
    quants(record, group, first, column),
    quants(record, group, first + 1u, column),
    quants(record, group, first + 2u, column),
    quants(record, group, first + 3u, column),
  );
}

// The first or second of a group's two 6-bit numbers: scale and minimum, or the scales of both halves.
fn six_bits(record: u32, field: u32, group: u32, second: u32, column: u32) -> u32 {
  let pair = field + group / 2u * 48u;
  let low = (weight_byte(record, pair + (group & 1u) * 16u + column) >> (4u * second)) & 15u;
  let high = (weight_byte(record, pair + 32u + column) >> (4u * (group & 1u) + 2u * second)) & 3u;
  return low | (high << 4u);
}

// The scale, and the minimum with its sign changed. With scales of halves both are those of the record.
fn scale_min(record: u32, group: u32, column: u32) -> vec2<f32> {
  if (SCALES == 1u) {
    let e = weight_byte(record, group * 16u + column);
    return vec2<f32>(bitcast<f32>(select(0x200000u << (e & 1u), (e - 1u) << 23u, e > 1u)), 0.0);
  }
  if (SCALES == 0u) {
    let scale = weight_half(record, group * 16u + column);
    if (!MINIMA) { return vec2<f32>(scale, 0.0); }
    return vec2<f32>(scale, weight_half(record, (2u + group) * 16u + column));
  }
  if (SCALES == 9u) { return vec2<f32>(bitcast<f32>(packed(record + column)), 0.0); }
  let d = ed_mul(weight_half(record, column), UNIT);
  if (SCALES == 8u) { return vec2<f32>(ed_mul(d, f32(signed_byte(record, 32u + group * 16u + column))), 0.0); }
  if (!MINIMA) { return vec2<f32>(d, 0.0); }
  let minimum = weight_half(record, 16u + column);
  if (HALVES) { return vec2<f32>(d, -minimum); }
  let scale = ed_mul(d, f32(six_bits(record, 64u, group, 0u, column)));
  return vec2<f32>(scale, -ed_mul(minimum, f32(six_bits(record, 64u, group, 1u, column))));
}

// The scale of a half (16 inputs) of a group: an integer, or with SCALES 9 the bits of a float.
fn sub_scale(record: u32, group: u32, half: u32, column: u32) -> i32 {
  if (SCALES == 4u) { return i32(six_bits(record, 32u, group, half, column)) - 32; }
  if (SCALES == 6u) { return i32((weight_byte(record, 32u + group * 16u + column) >> (4u * half)) & 15u) * 2 + 1; }
  let byte = (2u * group + half) * 16u + column;
  if (SCALES == 9u) {
    return bitcast<i32>(ed_mul(half_to_float(weight_byte(record, 64u + byte) << 7u), UNIT));
  }
  if (SCALES == 5u) { return i32(weight_byte(record, 64u + byte) & 15u); }
  return signed_byte(record, 32u + byte);
}

// What sub_scale() returned, as a float.
fn scale_of_half(scale: i32) -> f32 {
  if (SCALES == 9u) { return bitcast<f32>(scale); }
  return f32(scale);
}

// The sums of both halves by their scales. With floats only the last sum rounds.
fn sum_of_halves(scales: vec2<i32>, dots: vec2<i32>) -> f32 {
  if (SCALES == 9u) {
    return ed_fma(f32(dots.y), bitcast<f32>(scales.y), ed_mul(f32(dots.x), bitcast<f32>(scales.x)));
  }
  return f32(scales.x * dots.x + scales.y * dots.y);
}

// The integer minimum of a half of a group.
fn sub_min(record: u32, group: u32, half: u32, column: u32) -> i32 {
  return i32(weight_byte(record, 64u + (2u * group + half) * 16u + column) >> 4u);
}
