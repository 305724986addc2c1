// A part of prepare_int8.wgsl and attend_int8.wgsl: mixing, as tree_attention.h defines it. They declare
//   fn mixed_at(i: u32) -> f32, fn set_mixed(i: u32, x: f32)   element i of heads in workgroup memory
//   const THREADS

const MIXED: u32 = 32u;  // elements that are mixed with each other; a head may end with sixteen

// Mixes `heads` heads in place. Begins and ends with a barrier; all threads call it.
fn mix(thread: u32, heads: u32, as_query: bool) {
  const PAIRS = DIM / 2u;
  for (var half = MIXED / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    for (var k = thread; k < heads * PAIRS; k += THREADS) {
      let pair = k % PAIRS;
      let i = pair / half * 2u * half + pair % half;  // within its head
      if (i + half >= DIM) {
        continue;  // the first step of sixteen that end a head
      }
      let at = k / PAIRS * DIM + i;
      let a = mixed_at(at);
      let b = mixed_at(at + half);
      var factor = 1.0;
      if (half == 1u) {
        factor = select(0.25, 0.125, as_query && i / MIXED * MIXED + MIXED <= DIM);
      }
      set_mixed(at, ed_mul(ed_add(a, b), factor));
      set_mixed(at + half, ed_mul(ed_sub(a, b), factor));
    }
  }
  workgroupBarrier();
}
