// A group's scales and its term t, for the kernels of products in integers.

struct Scales {
  scale: vec2<f32>,  // and the minimum with its sign changed
  halves: vec4<i32>,  // scales of both halves, minima of both
}

fn scales_of(record: u32, group: u32, column: u32) -> Scales {
  var found: Scales;
  found.scale = scale_min(record, group, column);
  if (HALVES) {
    found.halves.x = sub_scale(record, group, 0u, column);
    found.halves.y = sub_scale(record, group, 1u, column);
    if (MINIMA) {
      found.halves.z = sub_min(record, group, 0u, column);
      found.halves.w = sub_min(record, group, 1u, column);
    }
  }
  return found;
}

// t of quant_linear.h from eight words of quants and of activations, and the sums of the activations' halves.
fn term(w0: vec4<u32>, w1: vec4<u32>, w: Scales, x0: vec4<u32>, x1: vec4<u32>, sums: vec2<i32>) -> f32 {
  var dot0 = ed_dot4(w0.x, x0.x) + ed_dot4(w0.y, x0.y) + ed_dot4(w0.z, x0.z) + ed_dot4(w0.w, x0.w);
  var dot1 = ed_dot4(w1.x, x1.x) + ed_dot4(w1.y, x1.y) + ed_dot4(w1.z, x1.z) + ed_dot4(w1.w, x1.w);
  dot0 = dot0 - i32(OFFSET) * sums.x;
  dot1 = dot1 - i32(OFFSET) * sums.y;
  var sum = f32(dot0 + dot1);
  var low = sums.x + sums.y;
  if (HALVES) {
    sum = sum_of_halves(w.halves.xy, vec2<i32>(dot0, dot1));
    low = w.halves.z * sums.x + w.halves.w * sums.y;
  }
  let t = ed_mul(sum, w.scale.x);
  if (!MINIMA) { return t; }
  return ed_fma(w.scale.y, f32(low), t);
}
