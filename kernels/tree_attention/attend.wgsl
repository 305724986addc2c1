// with wgsl/fold
// with tree_attention/paths
// with tree_attention/attend_path
//
// The last step of TreeAttention over an fp16 cache: scores, softmax, and the weighted sum of values. Order of
// arithmetic: tree_attention/tree_attention.h. attend_path.wgsl says how a workgroup goes about it. A thread computes
// the scores of a key in sixteen lanes. The chain over the keys of a path is sequential, so for values threads divide
// elements.
//
// Bindings: 1 queries f32[tokens][HEADS][DIM];
//           2 paths u32[t][1 + t] with t = first + tokens: the number of ancestors within the pass (0 for a root), then
//           these and the token itself, ascending. The tokens of this dispatch have the last rows;
//           3 cache as in prepare.wgsl, as vec4<u32>[...][DIM / 8];
//           4 sinks f32[HEADS], not read unless SINKS (bind queries);
//           5 out f32[tokens][HEADS][DIM], written.
// Constants: HEADS, KV_HEADS, DIM, CAPACITY, LAYER u32 as in prepare.wgsl; WINDOW u32, 0 for none; SOFTCAP f32, 0 for
//            none; SINKS bool.
// Grid: (KV_HEADS * ceil(HEADS / KV_HEADS / 4), tokens, 1). Of `this_pass`: length, first, tokens.

@group(0) @binding(1) var<storage, read> queries: array<f32>;
@group(0) @binding(3) var<storage, read> cache: array<vec4<u32>>;

const HELD: u32 = 1536u / AT_ONCE;
const EACH: u32 = (DIM + THREADS - 1u) / THREADS;  // elements of a thread
const AHEAD: u32 = 4u;  // keys whose values are read before the first of them is used

// With heads of 512 elements this and `shares` take the 16 KiB that every device has, less 1.5.
var<workgroup> query: array<f32, AT_ONCE * DIM>;

// Elements 16 c and on of a row, widened.
fn sixteen(row: u32, c: u32) -> array<f32, 16> {
  let at = row * (DIM / 8u) + 2u * c;
  let stored = array<vec4<u32>, 2>(cache[at], cache[at + 1u]);
  var wide: array<f32, 16>;
  for (var i = 0u; i < 16u; i++) {
    wide[i] = half_to_float((stored[i / 8u][i / 2u % 4u] >> (16u * (i & 1u))) & 0xffffu);
  }
  return wide;
}

// An element of a row, as it is stored.
fn fetch(row: u32, element: u32) -> u32 {
  let word = cache[row * (DIM / 8u) + element / 8u][element / 2u % 4u];
  return (word >> (16u * (element & 1u))) & 0xffffu;
}

fn scores_of(row: u32) -> array<f32, AT_ONCE> {
  var products: array<array<f32, LANES>, AT_ONCE>;
  for (var c = 0u; c < DIM / LANES; c++) {
    let key = sixteen(row, c);
    for (var h = 0u; h < AT_ONCE; h++) {
      for (var i = 0u; i < LANES; i++) {
        products[h][i] = ed_fma(query[h * DIM + LANES * c + i], key[i], products[h][i]);
      }
    }
  }
  var found: array<f32, AT_ONCE>;
  for (var h = 0u; h < AT_ONCE; h++) {
    found[h] = capped(ed_fold(products[h]));
  }
  return found;
}

// `total` and the values of an element of `count` keys from path index `start` on, each times its weight for each head.
fn with_values(total: array<f32, AT_ONCE>, path: Path, plane: u32, start: u32, count: u32,
               element: u32) -> array<f32, AT_ONCE> {
  var sum = total;
  for (var j = 0u; j < count; j += AHEAD) {
    var raw: array<u32, AHEAD>;
    for (var i = 0u; i < AHEAD; i++) {
      raw[i] = fetch(plane + slot_of(path, start + min(j + i, count - 1u)), element);
    }
    for (var i = 0u; i < min(AHEAD, count - j); i++) {
      let value = half_to_float(raw[i]);
      for (var h = 0u; h < AT_ONCE; h++) {
        sum[h] = ed_fma(shares[h * HELD + j + i], value, sum[h]);
      }
    }
  }
  return sum;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let heads = heads_of(group.x);
  let token = group.y;
  let path = path_of(token);
  for (var i = thread; i < AT_ONCE * DIM; i += THREADS) {
    let there = min(i, heads.count * DIM - 1u);  // heads that are not there get copies
    query[i] = queries[(token * HEADS + heads.first) * DIM + there];
  }
  find_tops(thread, path, path.first, heads);
  var sum = 0.0;
  var total: array<array<f32, AT_ONCE>, EACH>;
  for (var start = path.first; start < path.end; start += HELD) {
    let count = min(HELD, path.end - start);
    weigh(thread, path, start, vec2<u32>(0u, count), start == path.first, heads.keys);
    workgroupBarrier();
    sum = add_lane(thread, sum, vec2<u32>(0u, count), 0u);
    for (var n = 0u; n < EACH; n++) {
      let element = thread + n * THREADS;
      if (element < DIM) {
        total[n] = with_values(total[n], path, heads.values, start, count, element);
      }
    }
    workgroupBarrier();
  }
  end_sums(thread, sum, heads.first);
  for (var n = 0u; n < EACH; n++) {
    let element = thread + n * THREADS;
    for (var h = 0u; h < heads.count && element < DIM; h++) {
      out[(token * HEADS + heads.first + h) * DIM + element] = ed_div(total[n][h], sums[h]);
    }
  }
}
