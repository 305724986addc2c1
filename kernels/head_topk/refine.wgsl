// with quant_linear/formats
//
// The two-term logits of a row's candidates: head_topk/refine.h, each term in the order of quant_linear/quant_linear.h,
// then their plain sum. Without the softcap, which the host applies. A workgroup takes one candidate of one row: its
// threads compute the terms of groups, two of them add these in ascending order.
//
// Bindings: 1 weights u32[...], the table; 2 acts vec4<u32>[rows * 2][GROUPS][3], from quantise.wgsl with TERMS = 2 and
//           HEAD; 3 candidates u32[rows][K][2], from candidates.wgsl; 4 fine f32[rows][K], written where there is a
//           candidate.
// Constants: those of quant_linear/formats.wgsl; RECORDS of a tile; GROUPS of a row of activations; K; FIRST, ROWS: the
//            rows of the table that are bound, FIRST a multiple of 16. Candidates of others are left out.
// Grid: (K, rows, 1). Of `this_pass`: rows. Tables in floats are not refined.

@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(2) var<storage, read> acts: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> candidates: array<u32>;
@group(0) @binding(4) var<storage, read_write> fine: array<f32>;

fn packed(at: u32) -> u32 {
  return weights[at];
}

const TILE: u32 = 16u;
const THREADS: u32 = 64u;
const ALL: u32 = RECORDS * PER_RECORD;  // groups of the table's row

var<workgroup> products: array<vec2<f32>, THREADS>;  // of a group: t of both terms
var<workgroup> sums: array<f32, 2>;

// t of a group for the activations at index `at`.
fn term(record: u32, group: u32, column: u32, at: u32) -> f32 {
  let x = array<vec4<u32>, 2>(acts[at], acts[at + 1u]);
  let x_sums = bitcast<vec2<i32>>(acts[at + 2u].yz);
  var dots = vec2<i32>(0, 0);
  for (var step = 0u; step < 8u; step++) {
    dots[step / 4u] += ed_dot4(quants(record, group, step, column), x[step / 4u][step % 4u]);
  }
  dots -= i32(OFFSET) * x_sums;
  var sum = f32(dots.x + dots.y);
  var low = x_sums.x + x_sums.y;
  if (HALVES) {
    let scales = vec2<i32>(sub_scale(record, group, 0u, column), sub_scale(record, group, 1u, column));
    sum = sum_of_halves(scales, dots);
    if (MINIMA) {
      low = sub_min(record, group, 0u, column) * x_sums.x + sub_min(record, group, 1u, column) * x_sums.y;
    }
  }
  let scale = scale_min(record, group, column);
  let t = ed_mul(sum, scale.x);
  if (!MINIMA) {
    return t;
  }
  return ed_fma(scale.y, f32(low), t);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) place: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let at = place.y * K + place.x;
  let entry = candidates[2u * at];
  if (place.y >= this_pass.rows || entry < FIRST || entry - FIRST >= ROWS) {
    return;
  }
  let id = entry - FIRST;
  let tile = id / TILE * RECORDS * WORDS;
  var acc = 0.0;
  for (var first = 0u; first < ALL; first += THREADS) {
    let group = first + thread;
    if (group < ALL) {
      let record = tile + group / PER_RECORD * WORDS;
      for (var i = 0u; i < 2u; i++) {
        let row = (2u * place.y + i) * GROUPS + group;
        products[thread][i] = term(record, group % PER_RECORD, id % TILE, 3u * row);
      }
    }
    workgroupBarrier();
    if (thread < 2u) {
      for (var i = 0u; i < min(THREADS, ALL - first); i++) {
        let scale = bitcast<f32>(acts[((2u * place.y + thread) * GROUPS + first + i) * 3u + 2u].x);
        acc = ed_fma(products[i][thread], scale, acc);
      }
    }
    workgroupBarrier();
  }
  if (thread < 2u) {
    sums[thread] = acc;
  }
  workgroupBarrier();
  if (thread == 0u) {
    fine[at] = ed_add(sums[0], sums[1]);
  }
}
