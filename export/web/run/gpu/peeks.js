// Passes along a part of the layers, as executor.py and forward.py have them: a peek runs some of them over tokens that the next
// pass may begin with, and that pass goes on from there. Rows behind an exit are kept for all tokens of a draft.

const [TILES, IDS] = ["@trim.tiles", "@trim.ids"];
const TILE = 16;
const NOT_KEPT = 0xffffffff;

/** Return the tiles that hold ids, which ascend: u32[tiles][17] of kernels/quant_linear/kept.wgsl. */
export function tilesOf(ids) {
  const numbers = [...new Set(Array.from(ids, (id) => Math.floor(id / TILE)))];
  const places = new Map(numbers.map((number, place) => [number, place * (1 + TILE)]));
  const tiles = new Uint32Array(numbers.length * (1 + TILE)).fill(NOT_KEPT);
  for (const [number, place] of places) tiles[place] = number;
  ids.forEach((id, at) => (tiles[places.get(Math.floor(id / TILE)) + 1 + (id % TILE)] = at));
  return tiles;
}

/** Return the parts of a pass, see edgedec_web.h: its tokens, those before them, and the layers below and above. */
export function partsOf(pass) {
  const { tokens, done, below, above } = pass;
  const rest = { ...pass, tokens: tokens - done, first: done };
  if (above) return [{ ...rest, route: { below, above } }];
  if (!done) return [pass];
  const parts = [{ ...pass, route: { below: 0, above: below, source: below } }];
  return tokens === done ? parts : [{ ...rest, rows: 0, route: { below, above: 0 } }, ...parts];
}

export class Peeks {
  #memory;
  #write;
  #ends;
  #row;
  #kept = new Uint32Array();
  #tiles = 0;

  constructor(program, memory, write) {
    this.#memory = memory;
    this.#write = write;
    this.#ends = new Map(program.layers.map(({ layer, steps, out }) => [layer + 1, { steps, out, tap: `drafting.tap.${layer}` }]));
    this.#row = 4 * program.spec.hidden_size;
    this.exits = [...this.#ends.keys()];
  }

  parts(pass) {
    return partsOf(pass);
  }

  /** Have the head compute these ids; returns the number of their tiles. */
  keep(ids) {
    if (ids.length === this.#kept.length && ids.every((id, at) => id === this.#kept[at])) return this.#tiles;
    const tiles = tilesOf(ids);
    this.#kept = ids.slice();
    this.#tiles = tiles.length / (1 + TILE);
    this.#write(TILES, tiles);
    this.#write(IDS, this.#kept);
    return this.#tiles;
  }

  /** Run a part along its route: `run(begin, end)` runs steps of the program. */
  run(encoder, { tokens, first, route: { below, above, source = below } }, run) {
    const [from, to] = [this.#ends.get(source), this.#ends.get(above)];
    const copy = ([a, at], [b, place]) => {
      const [one, other] = [this.#memory.part(a).buffer, this.#memory.part(b).buffer];
      encoder.copyBufferToBuffer(one, at * this.#row, other, place * this.#row, tokens * this.#row);
    };
    if (below) {
      run(0, from.steps);
      copy([from.out, 0], [from.tap, first]);
    }
    if (!above) return;
    copy([from.tap, first], [to.out, 0]);
    run(to.steps);
  }
}
