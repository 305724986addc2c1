// Results of the prelude's functions, to be compared with wgsl/probe.json, which has what they must be.
//
// Bindings: 1 a, 2 b, 3 c u32[N]: the bits of floats; 4 results u32[results][N] in the order of the file.
// Grid: N / 64 workgroups.

@group(0) @binding(1) var<storage, read> left: array<u32>;
@group(0) @binding(2) var<storage, read> right: array<u32>;
@group(0) @binding(3) var<storage, read> third: array<u32>;
@group(0) @binding(4) var<storage, read_write> results: array<u32>;

var<private> at: u32;

fn put(x: f32) {
  put_word(bitcast<u32>(x));
}

fn put_word(x: u32) {
  results[at] = x;
  at = at + arrayLength(&left);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= arrayLength(&left)) { return; }
  at = id.x;
  let a = bitcast<f32>(left[at]);
  let b = bitcast<f32>(right[at]);
  let c = bitcast<f32>(third[at]);
  put(ed_fma(a, b, c));
  put(ed_mul(a, b));
  put(ed_add(b, c));
  put(ed_sub(b, c));
  put(ed_add(ed_mul(a, b), c));
  put(ed_sub(ed_add(a, c), a));
  put(ed_div(a, b));
  put(ed_sqrt(c));
  put_word(bitcast<u32>(ed_dot4(bitcast<u32>(a), bitcast<u32>(b))));
  put(ed_max(a, b));
  put(ed_min(a, b));
  put(ed_round_even(b));
  put(f32(bitcast<i32>(bitcast<u32>(c)) >> 8u));
  put(half_to_float(bitcast<u32>(a) & 0xffffu));
  put_word(float_to_half(b));
  put(ed_exp(b));
  put(ed_silu(c));
  put(ed_softcap(b, 30.0));
}
