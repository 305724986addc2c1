// A part of kernels that convolve along paths: recurrent/convolve.h. They declare `steps`, `trail` f32[32][TRAIL_ROW],
// `tokens` f32[tokens][TOKEN_ROW], whose rows begin as those of the trail do, and `conv` f32[columns][TAPS].

// The sum over the taps of a step and a column.
fn convolved(i: u32, column: u32) -> f32 {
  var sum = 0.0;
  for (var tap = 0u; tap < TAPS; tap++) {
    let row = row_of(i, tap);
    var x = 0.0;
    if (row < TRAIL_SLOTS) {
      x = trail[row * TRAIL_ROW + column];
    } else if (row - TRAIL_SLOTS < this_pass.tokens) {
      x = tokens[(row - TRAIL_SLOTS) * TOKEN_ROW + column];
    }
    sum = ed_fma(conv[column * TAPS + tap], x, sum);
  }
  return sum;
}
