// Four products of int8, added, with shifts.

fn ed_dot4(a: u32, b: u32) -> i32 {
  let x = bitcast<vec4<i32>>(vec4<u32>(a << 24u, a << 16u, a << 8u, a)) >> vec4<u32>(24u);
  let y = bitcast<vec4<i32>>(vec4<u32>(b << 24u, b << 16u, b << 8u, b)) >> vec4<u32>(24u);
  return dot(x, y);
}
