// A program's buffers on the device: weights in a few large ones, values of passes, and the KV cache. All are counted before
// any is made, by the rules of program.py and weights.py.

import { Fault } from "../errors.js";
import { roundUp } from "./adapter.js";
import { bytesOf } from "./probe.js";
import { TRAIL_SLOTS } from "./states.js";

const ALIGNMENT = 256;
const ARENA = 2 ** 30;
const PIECES_AT_ONCE = 4; // that wait for the GPU: the browser holds a copy of each

/** Return the bytes of each buffer of its own, of each shared memory, and of each arena with its tensors' places. */
export function planned(program, limits) {
  const { capacity, max_pass: pass, max_rows: rows } = program;
  const units = { once: 1, token: pass, row: rows, slot: capacity, step: pass + TRAIL_SLOTS };
  const own = new Map();
  const shared = new Map();
  for (const [name, { per, bytes, memory }] of Object.entries(program.buffers)) {
    const size = units[per] * bytes;
    if (memory < 0) own.set(name, size);
    else shared.set(memory, Math.max(size, shared.get(memory) ?? 0));
  }
  const arenas = arenasOf(program, Math.min(limits.maxBufferSize, ARENA));
  const sizes = [...own.values(), ...shared.values(), ...arenas.map(({ size }) => size)];
  return { own, shared, arenas, total: sizes.reduce((sum, size) => sum + roundUp(size, 4), 0) };
}

function arenasOf(program, most) {
  const sizes = Object.entries(program.tensors).map(([name, { bytes }]) => [name, bytes]);
  sizes.push(...Object.entries(program.inline).map(([name, text]) => [name, bytesOf(text).length]));
  const arenas = [{ size: 0, places: new Map() }];
  for (const [name, size] of sizes) {
    let last = arenas.at(-1);
    let offset = roundUp(last.size, ALIGNMENT);
    if (offset && offset + size > most) {
      arenas.push((last = { size: 0, places: new Map() }));
      offset = 0;
    }
    last.places.set(name, { offset, size });
    last.size = offset + size;
  }
  return arenas;
}

export class Memory {
  #device;
  #program;
  #plan;
  #made = [];
  #parts = new Map();

  constructor(device, program) {
    this.#device = device;
    this.#program = program;
    this.#plan = planned(program, device.limits);
    const most = device.limits.maxStorageBufferBindingSize;
    const large = [...Object.entries(program.tensors).map(([name, one]) => [name, one.bytes]), ...this.#plan.own]
      .find(([, bytes]) => bytes > most);
    if (large) {
      throw new Fault("device", `${large[0]} takes ${large[1]} bytes, and this GPU binds at most ${most} at once`,
        "compute on the CPU");
    }
  }

  /** Bytes that the program takes, and those of the buffers made so far. */
  get planned() {
    return this.#plan.total;
  }

  get used() {
    return this.#made.reduce((sum, { size }) => sum + size, 0);
  }

  /** Make all buffers. */
  async allocate() {
    const { STORAGE, COPY_DST, COPY_SRC } = GPUBufferUsage;
    const make = async (size, label) => {
      this.#made.push(await this.#device.buffer(size, STORAGE | COPY_DST | COPY_SRC, label));
      return this.#made.at(-1);
    };
    for (const [index, { size, places }] of this.#plan.arenas.entries()) {
      const buffer = await make(size, `weights ${index}`);
      for (const [name, place] of places) this.#parts.set(name, { buffer, ...place });
    }
    const shared = new Map();
    for (const [number, size] of this.#plan.shared) shared.set(number, await make(size, "values of a pass"));
    for (const [name, { memory }] of Object.entries(this.#program.buffers)) {
      const buffer = memory < 0 ? await make(this.#plan.own.get(name), name) : shared.get(memory);
      this.#parts.set(name, { buffer, offset: 0, size: buffer.size });
    }
  }

  /** Return a tensor's or a buffer's place, as a binding. */
  part(name) {
    const found = this.#parts.get(name);
    if (!found) throw new Fault("device", `the program binds ${name}, which it does not have`, "export the folder again");
    return { buffer: found.buffer, offset: found.offset, size: roundUp(found.size, 4) };
  }

  /** Write all tensors, out of the pieces of weights.bin. */
  async load(pieces) {
    const { queue } = this.#device.handle;
    for (const [name, text] of Object.entries(this.#program.inline)) this.#write(name, 0, bytesOf(text));
    const tensors = Object.entries(this.#program.tensors);
    let waiting = 0;
    for await (const [start, bytes] of pieces) {
      for (const [name, place] of tensors) {
        const from = Math.max(start, place.offset);
        const end = Math.min(start + bytes.length, place.offset + place.bytes);
        if (from < end) this.#write(name, from - place.offset, bytes.subarray(from - start, end - start));
      }
      waiting = (waiting + 1) % PIECES_AT_ONCE;
      if (!waiting) await this.#device.within(queue.onSubmittedWorkDone());
    }
    await this.#device.within(queue.onSubmittedWorkDone());
  }

  #write(name, at, bytes) {
    const { buffer, offset } = this.#parts.get(name);
    let whole = bytes;
    if (bytes.length % 4) {
      whole = new Uint8Array(roundUp(bytes.length, 4));
      whole.set(bytes);
    }
    this.#device.handle.queue.writeBuffer(buffer, offset + at, whole);
  }
}
