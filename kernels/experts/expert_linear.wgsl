// with quant_linear/formats
// with quant_linear/term
//
// Experts: a matrix of each pair of a token and an expert that choose.wgsl chose for it, in the order of quant_linear.h. A
// workgroup computes a tile of 16 outputs of one pair: invocation (column, y) the t of group y, of 16 groups at a time;
// then (column, 0) adds these in ascending order.
//
// Bindings: 1 weights, whole experts as experts.h lays them out; 2 activations, from quantise.wgsl; 3 chosen, from
//           choose.wgsl; 4 out f32[tokens * CHOSEN][STRIDE], written for pairs whose expert is bound.
// Constants: those of formats.wgsl; RECORDS of a tile; GROUPS of a row of activations; OUTPUTS of the matrix; FIRST, its
//            first column in out; STRIDE, columns of out; CHOSEN; BOUND, COUNT: the first of the experts that are bound, and
//            how many; EXPERT_WORDS of an expert; AT, words before its matrix; BIAS_AT, words before the matrix' biases, or 0;
//            OWN, whether activations are those of pairs, and not of tokens.
// Grid: (OUTPUTS / 16 rounded up, tokens * CHOSEN, 1).

@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(2) var<storage, read> acts: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> chosen: array<u32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

var<workgroup> products: array<f32, 256>;  // [group][column]

fn packed(at: u32) -> u32 {
  return weights[at];
}

@compute @workgroup_size(16, 16)
fn main(@builtin(local_invocation_id) local: vec3<u32>, @builtin(workgroup_id) place: vec3<u32>) {
  let column = local.x;
  let y = local.y;
  let pair = place.y;
  let expert = chosen[2u * pair];
  let bound = expert >= BOUND && expert - BOUND < COUNT;
  let base = select(0u, (expert - BOUND) * EXPERT_WORDS, bound);
  let tile = base + AT + place.x * RECORDS * WORDS;
  let row = select(pair / CHOSEN, pair, OWN) * GROUPS;
  let groups = RECORDS * PER_RECORD;
  var acc = 0.0;
  for (var first = 0u; first < groups; first += 16u) {
    let group = first + y;
    if (bound && group < groups) {
      let record = tile + group / PER_RECORD * WORDS;
      let inside = group % PER_RECORD;
      let w = scales_of(record, inside, column);
      let w0 = four_quants(record, inside, 0u, column);
      let w1 = four_quants(record, inside, 4u, column);
      let at = (row + group) * 3u;
      products[y * 16u + column] = term(w0, w1, w, acts[at], acts[at + 1u], bitcast<vec2<i32>>(acts[at + 2u].yz));
    }
    workgroupBarrier();
    if (y == 0u) {
      for (var i = 0u; i < min(16u, groups - first); i++) {
        acc = ed_fma(products[i * 16u + column], bitcast<f32>(acts[(row + first + i) * 3u + 2u].x), acc);
      }
    }
    workgroupBarrier();
  }
  let output = place.x * 16u + column;
  if (y == 0u && bound && output < OUTPUTS) {
    if (BIAS_AT > 0u) { acc = ed_add(bitcast<f32>(weights[base + BIAS_AT + output]), acc); }
    out[pair * STRIDE + FIRST + output] = acc;
  }
}
