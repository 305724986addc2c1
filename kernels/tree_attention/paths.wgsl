// A part of the kernels that follow paths. They declare `paths` (see attend.wgsl) and WINDOW.

// The path of a token: the indices [first, end) that take part, and where it is described.
struct Path {
  first: u32,
  end: u32,
  chain: u32,
}

fn path_of(token: u32) -> Path {
  let at = (this_pass.first + token) * (1u + this_pass.first + this_pass.tokens);
  let end = this_pass.length + paths[at] + 1u;
  return Path(select(0u, end - min(end, WINDOW), WINDOW > 0u), end, at + 1u);
}

// The slot of index i of a path.
fn slot_of(path: Path, i: u32) -> u32 {
  if (i < this_pass.length) {
    return i;
  }
  return this_pass.length + paths[path.chain + i - this_pass.length];
}
