// Experts, the first step: the experts of each token and their weights, in the order of experts.h. A workgroup takes one
// token. Of equal keys the lower index is chosen: an expert's place is the number of those before it in that order.
//
// Bindings: 1 scores f32[tokens][EXPERTS]; 2 choice f32[EXPERTS], not read unless CHOICE; 3 factor f32[EXPERTS], not read
//           unless FACTOR (bind scores for either); 4 chosen u32[tokens][CHOSEN][2], written: an expert and the bits of its
//           weight, experts ascending.
// Constants: EXPERTS, CHOSEN u32; SIGMOID, NORMALISE, CHOICE, FACTOR bool; EPSILON, SCALE f32.
// Grid: (tokens, 1, 1).

@group(0) @binding(1) var<storage, read> scores: array<f32>;
@group(0) @binding(2) var<storage, read> choice: array<f32>;
@group(0) @binding(3) var<storage, read> factor: array<f32>;
@group(0) @binding(4) var<storage, read_write> chosen: array<u32>;

const THREADS: u32 = 64u;

var<workgroup> keys: array<f32, EXPERTS>;
var<workgroup> gates: array<f32, EXPERTS>;
var<workgroup> taken: array<u32, EXPERTS>;  // 1 for a chosen one
var<workgroup> most: f32;
var<workgroup> divisor: f32;

// Whether expert `a` comes before expert `b`.
fn before(a: u32, b: u32) -> bool {
  return keys[a] > keys[b] || (keys[a] == keys[b] && a < b);
}

fn find_most(token: u32) {
  most = scores[token * EXPERTS];
  for (var e = 1u; e < EXPERTS; e++) {
    let score = scores[token * EXPERTS + e];
    if (score > most) { most = score; }
  }
}

// The sum that weights are divided by, in ascending order.
fn find_divisor() {
  var sum = 1.0;
  if (NORMALISE || !SIGMOID) {
    sum = 0.0;
    for (var e = 0u; e < EXPERTS; e++) {
      if (!NORMALISE || taken[e] == 1u) { sum = ed_add(sum, gates[e]); }
    }
  }
  if (NORMALISE) { sum = ed_add(sum, EPSILON); }
  divisor = sum;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let token = group.x;
  if (thread == 0u) { find_most(token); }
  workgroupBarrier();
  for (var e = thread; e < EXPERTS; e += THREADS) {
    let score = scores[token * EXPERTS + e];
    keys[e] = score;
    if (SIGMOID) {
      gates[e] = ed_div(1.0, ed_add(1.0, ed_exp(ed_sub(0.0, score))));
      keys[e] = gates[e];
      if (CHOICE) { keys[e] = ed_add(gates[e], choice[e]); }
    } else {
      gates[e] = ed_exp(ed_sub(score, most));
    }
  }
  workgroupBarrier();
  for (var e = thread; e < EXPERTS; e += THREADS) {
    var place = 0u;
    for (var other = 0u; other < EXPERTS; other++) { place += u32(before(other, e)); }
    taken[e] = u32(place < CHOSEN);
  }
  workgroupBarrier();
  if (thread == 0u) { find_divisor(); }
  workgroupBarrier();
  for (var e = thread; e < EXPERTS; e += THREADS) {
    var place = 0u;
    for (var other = 0u; other < e; other++) { place += taken[other]; }
    if (taken[e] == 0u || place >= CHOSEN) { continue; }
    var weight = ed_mul(ed_div(gates[e], divisor), SCALE);
    if (FACTOR) { weight = ed_mul(weight, factor[e]); }
    let at = 2u * (token * CHOSEN + place);
    chosen[at] = e;
    chosen[at + 1u] = bitcast<u32>(weight);
  }
}
