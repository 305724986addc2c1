// The data of recurrent layers on a device: trails of the newest tokens, states, and a checkpoint of both, as states.py has them.

export const TRAIL_SLOTS = 32;
export const STEP_BYTES = 48;
const [TRAIL, STATE, CHECKPOINT] = ["@trail.", "@state.", "@checkpoint."];
const [RESTORE, CLEAR] = [1, 2]; // of a pass; see edgedec_web.h

export class States {
  #memory;
  #tail;
  #layers;

  constructor(program, memory) {
    const names = Object.keys(program.buffers);
    this.#memory = memory;
    this.#tail = program.convolution - 1;
    this.#layers = names.filter((name) => name.startsWith(TRAIL)).map((trail) => {
      const layer = trail.slice(TRAIL.length);
      const bytes = (name) => program.buffers[name]?.bytes ?? 0;
      return {
        trail, row: bytes(trail) / TRAIL_SLOTS, state: STATE + layer, size: bytes(STATE + layer), checkpoint: CHECKPOINT + layer,
      };
    });
    this.applies = this.#layers.some(({ size }) => size);
  }

  /** Bring the states to the tokens before a pass. */
  follow(encoder, { restore, applied }) {
    if (restore === RESTORE) this.#copy(encoder, applied, (kept, own, bytes) => [...kept, ...own, bytes]);
    if (restore !== CLEAR) return;
    for (const { state, size } of this.#layers) {
      if (size) encoder.clearBuffer(this.#memory.part(state).buffer, 0, size);
    }
  }

  /** Take the checkpoint, which covers `applied` tokens. */
  keep(encoder, applied) {
    this.#copy(encoder, applied, (kept, own, bytes) => [...own, ...kept, bytes]);
  }

  /** Copy the tail's rows and the state of each layer; `order` puts a copy's places in order. */
  #copy(encoder, applied, order) {
    for (const { trail, row, state, size, checkpoint } of this.#layers) {
      if (!this.#tail && !size) continue;
      const kept = this.#memory.part(checkpoint).buffer;
      const own = this.#memory.part(trail).buffer;
      for (let place = 0; place < this.#tail; place++) {
        const slot = applied - this.#tail + place + TRAIL_SLOTS;
        encoder.copyBufferToBuffer(...order([kept, place * row], [own, (slot % TRAIL_SLOTS) * row], row));
      }
      if (size) encoder.copyBufferToBuffer(...order([kept, this.#tail * row], [this.#memory.part(state).buffer, 0], size));
    }
  }
}
