// A part of kernels that walk: the list of steps of a pass, as recurrent/list_steps.h writes it. They declare `steps`.

const STEP_WORDS: u32 = 12u;
const TRAIL_SLOTS: u32 = 32u;
const NO_COPY: u32 = 0xffffffffu;
const FOLLOWS: u32 = 1u;
const LEAF: u32 = 2u;
const SETTLES: u32 = 4u;

struct Step {
  flags: u32,
  parent: u32,  // the copy that its parent's state is in
  keep: u32,    // the copy that keeps its own
  token: u32,
}

fn step_at(i: u32) -> Step {
  let at = i * STEP_WORDS;
  return Step(steps[at], steps[at + 1u], steps[at + 2u], steps[at + 3u]);
}

// The row that a convolution reads at a tap.
fn row_of(i: u32, tap: u32) -> u32 {
  return steps[i * STEP_WORDS + 4u + tap];
}
