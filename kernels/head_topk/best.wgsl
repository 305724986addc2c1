// The K best of each 1,024 entries of a row: value descending, id ascending among equals, NaN never. The first step
// reads logits; further ones join the lists of the step before, until one list a row is left. A workgroup takes 1,024
// entries.
//
// An entry of a list is vec2<u32>: a key, which orders floats as unsigned integers, and the id. Where there are fewer
// than K, the rest have the key 0 and the id 0xffffffff.
//
// Bindings: 1 logits f32[rows][COUNT], not read unless LOGITS; 2 lists vec2<u32>[rows][COUNT], not read where LOGITS
//           (bind what is read twice); 3 best vec2<u32>[rows][ceil(COUNT / 1024)][K], written.
// Constants: COUNT u32, entries of a row: of the vocabulary, or K * the lists of a row; K u32, 1 to 64; LOGITS bool;
//            KEPT bool: the logits are those of a trimmed head, this_pass.kept a row.
// Grid: (ceil(COUNT / 1024), rows, 1). Of `this_pass`: rows, kept.

@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read> lists: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> best: array<vec2<u32>>;

const BLOCK: u32 = 1024u;
const MOST: u32 = 64u;
const THREADS: u32 = 256u;
const NONE: vec2<u32> = vec2<u32>(0u, 0xffffffffu);

var<workgroup> entries: array<vec2<u32>, BLOCK>;

fn better(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.x > b.x || (a.x == b.x && a.y < b.y);
}

// Equal keys for equal numbers: those of both zeros too.
fn key_of(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  if ((bits & 0x7fffffffu) == 0u) {
    return 0x80000000u;
  }
  return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

fn entry(row: u32, at: u32) -> vec2<u32> {
  let count = select(COUNT, this_pass.kept, KEPT);
  if (at >= count) {
    return NONE;
  }
  if (!LOGITS) {
    return lists[row * count + at];
  }
  let value = logits[row * count + at];
  if (ed_is_nan(value)) {
    return NONE;
  }
  return vec2<u32>(key_of(value), at);
}

// Orders entries i and j: the better one first, or last.
fn exchange(i: u32, j: u32, first: bool) {
  let a = entries[i];
  let b = entries[j];
  if (better(b, a) == first) {
    entries[i] = b;
    entries[j] = a;
  }
}

// Sorts each list of MOST entries, the best first: bitonic, lists in the places 0, step, 2 step, ... of lists.
fn finish_merge(thread: u32, pairs: u32, step: u32) {
  for (var stride = MOST / 2u; stride > 0u; stride /= 2u) {
    for (var p = thread; p < pairs; p += THREADS) {
      let i = p % (MOST / 2u);
      let low = p / (MOST / 2u) * step * MOST + (i / stride * 2u * stride) + i % stride;
      exchange(low, low + stride, true);
    }
    workgroupBarrier();
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
  if (group.y >= this_pass.rows) {
    return;
  }
  if (KEPT && group.x * BLOCK >= this_pass.kept) {
    if (thread < K) {
      best[(group.y * groups.x + group.x) * K + thread] = NONE;
    }
    return;
  }
  for (var i = thread; i < BLOCK; i += THREADS) {
    entries[i] = entry(group.y, group.x * BLOCK + i);
  }
  workgroupBarrier();
  // Lists of two entries up to half of MOST, in turns ascending and descending, so that two are one bitonic list.
  for (var size = 2u; size < MOST; size *= 2u) {
    for (var stride = size / 2u; stride > 0u; stride /= 2u) {
      for (var p = thread; p < BLOCK / 2u; p += THREADS) {
        let low = p / stride * 2u * stride + p % stride;
        exchange(low, low + stride, (low & size) == 0u);
      }
      workgroupBarrier();
    }
  }
  finish_merge(thread, BLOCK / 2u, 1u);
  // Two sorted lists become one of the better half of their entries, which is bitonic.
  for (var step = 1u; step < BLOCK / MOST; step *= 2u) {
    let lists_left = BLOCK / MOST / (2u * step);
    for (var p = thread; p < lists_left * MOST; p += THREADS) {
      let i = p % MOST;
      let start = p / MOST * 2u * step * MOST;
      let other = entries[start + step * MOST + MOST - 1u - i];
      if (better(other, entries[start + i])) {
        entries[start + i] = other;
      }
    }
    workgroupBarrier();
    finish_merge(thread, lists_left * MOST / 2u, 2u * step);
  }
  if (thread < K) {
    best[(group.y * groups.x + group.x) * K + thread] = entries[thread];
  }
}
