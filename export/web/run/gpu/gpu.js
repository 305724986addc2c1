// Passes on a GPU: the program's steps over its buffers, with one read-back for the head, whose end is edgedec.wasm's because
// it adds doubles. The same rules as executor.py.

import { Memory } from "./memory.js";
import { Peeks } from "./peeks.js";
import { bytesOf, probe } from "./probe.js";
import { STEP_BYTES, States, TRAIL_SLOTS } from "./states.js";
import { Steps, compiler } from "./steps.js";

const ROTARY = "@rotary.";
const UNIFORM = 32;
const NO_ENTRY = 0xffffffff;
const [BLOCK, SUMS_BYTES, WORD] = [1024, 12, 4]; // of the head's results

export class Gpu {
  #device;
  #wasm;
  #engine;
  #program;
  #memory;
  #steps;
  #settling;
  #states;
  #peeks;
  #uniform;
  #read;
  #host;

  /** Whether results have the CPU's bits; `failed` names operations that are wrong, or wrong for tiny numbers. */
  exact = false;
  failed = [];

  /** Ask the device for its arithmetic, put the weights onto it, and compile the kernels. */
  static async make(device, files, parts, engine, wasm) {
    const gpu = new Gpu();
    const [shaders, data, program] = await Promise.all(
      [parts.shaders, parts.probe, parts.program].map((name) => files.json(name)),
    );
    const { variants, failed, flushed } = await probe(device, shaders, data);
    const memory = new Memory(device, program);
    await memory.allocate();
    await memory.load(files.pieces(parts.weights));
    Object.assign(gpu, { exact: !failed.length, failed: failed.length ? failed : flushed, title: device.title });
    gpu.#device = device;
    [gpu.#wasm, gpu.#engine, gpu.#program, gpu.#memory] = [wasm, engine, program, memory];
    await gpu.#prepare(compiler(device, program, shaders, variants));
    return gpu;
  }

  /** Bytes on the device, and those that were planned. */
  get memory() {
    return { used: this.#memory.used, planned: this.#memory.planned };
  }

  /** Numbers of layers that a peek can begin with, ascending to all; none: it cannot peek. */
  get exits() {
    return this.#peeks.exits;
  }

  /** Compute a pass of the engine, or a peek, and write its results into the module's memory. */
  async compute(pass) {
    this.#device.check();
    if (pass.moves) this.#settle(pass);
    if (pass.restore) this.#encode((encoder) => this.#states.follow(encoder, pass));
    const behind = this.#states.applies ? pass.length - pass.applied : 0;
    const tiles = pass.kept && this.#peeks.keep(this.#wasm.words(pass.keptIds, pass.kept));
    if (pass.kept) await this.#steps.trim();
    for (const part of this.#peeks.parts({ ...pass, first: 0, behind, tiles })) await this.#run(part);
    if (pass.keep) this.#encode((encoder) => this.#states.keep(encoder, pass.keep));
  }

  /** Run a part of a pass: all layers of its tokens, or those of its `route`. */
  async #run(part) {
    this.#feed(part);
    const most = this.#program.max_rows;
    for (let first = 0; first === 0 || first < part.rows; first += most) {
      await this.#part(part, first, Math.min(most, part.rows - first));
    }
  }

  close() {
    this.#device.close();
    for (const address of this.#host?.all ?? []) this.#wasm.free(address);
    this.#host = null;
  }

  async #prepare(compiled) {
    const { COPY_DST, MAP_READ } = GPUBufferUsage;
    const program = this.#program;
    this.#uniform = await this.#device.buffer(UNIFORM, GPUBufferUsage.UNIFORM | COPY_DST, "the facts of a pass");
    const make = (steps) => Steps.make(this.#device, this.#memory, program, steps, compiled, this.#uniform);
    [this.#steps, this.#settling] = [await make(program.steps), await make(program.settling)];
    const row = this.#results(true).reduce((sum, one) => sum + one.bytes, 0);
    this.#read = await this.#device.buffer(row * program.max_rows, MAP_READ | COPY_DST, "results of a pass");
    this.#host = this.#hostMemory();
    this.#states = new States(program, this.#memory);
    this.#peeks = new Peeks(program, this.#memory, (name, data) => this.#write(name, data));
  }

  /** Take memory of the module: tables of sines and cosines, and one row of the head's results. */
  #hostMemory() {
    const { program, wasm } = { program: this.#program, wasm: this.#wasm };
    const all = [];
    const take = (bytes) => all[all.push(wasm.alloc(bytes)) - 1];
    const tables = Object.keys(program.buffers).filter((name) => name.startsWith(ROTARY)).map((name) => {
      const text = atob(program.inline[name.slice(ROTARY.length)]);
      const inverse = take(text.length);
      wasm.view(inverse, text.length).set(Uint8Array.from(text, (one) => one.charCodeAt(0)));
      const half = text.length / 4;
      const scale = program.rotary_scale[name.slice(ROTARY.length)];
      const factors = scale && new Float32Array(bytesOf(program.inline[scale]).buffer);
      return { name, inverse, half, factors, table: take(program.max_pass * 2 * text.length) };
    });
    const { blocks, k, refined } = program.head;
    const row = { sums: take(SUMS_BYTES * blocks), ids: take(4 * k), coarse: take(4 * k), fine: refined ? take(4 * k) : 0 };
    const steps = "@steps" in program.buffers ? take((program.max_pass + TRAIL_SLOTS) * STEP_BYTES) : 0;
    return { all, tables, row, steps };
  }

  /** Names, buffers and bytes a row of what is read back; `entries`: those of a row of the head. */
  #results(full, entries = this.#program.head.vocabulary) {
    const { results, logits } = this.#program.head;
    const all = [...Object.entries(results), ...(full ? [["logits", logits]] : [])];
    const own = { sums: SUMS_BYTES * Math.ceil(entries / BLOCK), logits: WORD * entries };
    return all.map(([name, buffer]) => ({ name, buffer, bytes: own[name] ?? this.#program.buffers[buffer].bytes }));
  }

  /** Copy the slots of a kept path: from[i] to to[0] + i, in every layer. */
  #settle({ from, to, moves }) {
    const start = this.#wasm.words(to, moves)[0];
    const kept = this.#wasm.words(from, moves).map((slot) => slot - start);
    this.#write("@kept", kept);
    const facts = { tokens: moves, length: start, rows: 0, inverse: 1, first: 0, kept: 0, behind: 0 };
    this.#facts(facts);
    this.#encode((encoder) => {
      const within = encoder.beginComputePass();
      this.#settling.dispatch(within, facts, true);
      within.end();
    });
  }

  /** Write the inputs of a pass, of which those of the `first` tokens before its own are a part. */
  #feed({ tokens: own, first, tokenIds, positions, paths, behind }) {
    const tokens = first + own;
    this.#write("@tokens", this.#wasm.words(tokenIds + WORD * first, own));
    this.#write("@positions", this.#wasm.words(positions, tokens));
    this.#write("@paths", this.#wasm.words(paths, tokens * (1 + tokens)));
    const { steps } = this.#host;
    if (steps) {
      this.#engine.check("steps", behind, this.#program.convolution, steps);
      this.#write("@steps", this.#wasm.view(steps, (behind + tokens) * STEP_BYTES));
    }
    for (const { name, inverse, half, factors, table } of this.#host.tables) {
      this.#engine.check("rotary", inverse, half, table);
      const rows = this.#wasm.floats(table, tokens * 2 * half);
      if (factors) rows.forEach((value, at) => (rows[at] = value * factors[at % factors.length]));
      this.#write(name, rows);
    }
  }

  /** Run the steps for some rows of the head, the first time with all before the head. */
  async #part(pass, first, rows) {
    const facts = { ...pass, rows };
    this.#facts(facts);
    if (rows) this.#write("@rows", this.#wasm.words(pass.chosen, pass.rows).subarray(first, first + rows));
    const reads = rows ? this.#results(pass.full === 1, pass.kept || undefined) : [];
    const bytes = reads.reduce((sum, one) => sum + one.bytes * rows, 0);
    this.#encode((encoder) => {
      const run = (begin, end) => {
        const within = encoder.beginComputePass();
        this.#steps.dispatch(within, facts, first === 0, begin, end);
        within.end();
      };
      if (pass.route && first === 0) this.#peeks.run(encoder, pass, run);
      else run();
      let at = 0;
      for (const one of reads) {
        const { buffer, offset } = this.#memory.part(one.buffer);
        encoder.copyBufferToBuffer(buffer, offset, this.#read, at, one.bytes * rows);
        at += one.bytes * rows;
      }
    });
    if (!rows) return this.#device.within(this.#device.handle.queue.onSubmittedWorkDone());
    await this.#device.within(this.#read.mapAsync(GPUMapMode.READ, 0, bytes));
    try {
      this.#end(pass, first, rows, reads, new Uint8Array(this.#read.getMappedRange(0, bytes)));
    } finally {
      this.#read.unmap();
    }
  }

  /** End the head of some rows: the module joins sums of blocks in doubles, and ranks. */
  #end(pass, first, rows, reads, mapped) {
    const { softcap, vocabulary } = this.#program.head;
    const blocks = Math.ceil((pass.kept || vocabulary) / BLOCK);
    const { sums, ids, coarse, fine } = this.#host.row;
    let at = 0;
    const found = new Map(reads.map(({ name, bytes }) => {
      const start = at;
      at += bytes * rows;
      return [name, (index) => mapped.subarray(start + index * bytes, start + (index + 1) * bytes)];
    }));
    for (let index = 0; index < rows; index++) {
      this.#wasm.view(sums, SUMS_BYTES * blocks).set(found.get("sums")(index));
      const count = this.#candidates(found.get("candidates")(index));
      if (fine) this.#wasm.view(fine, 4 * count).set(found.get("fine")(index).subarray(0, 4 * count));
      const logits = found.get("logits")?.(index);
      if (logits) this.#wasm.view(pass.logits + (first + index) * logits.length, logits.length).set(logits);
      this.#engine.check("head", first + index, sums, blocks, ids, coarse, fine, count, softcap);
    }
  }

  /** Write a row's candidates, of an id and the bits of a logit each; returns how many there are. */
  #candidates(bytes) {
    const words = new Uint32Array(bytes.slice().buffer);
    const { ids, coarse } = this.#host.row;
    const [wholeIds, wholeBits] = [ids, coarse].map((address) => this.#wasm.words(address, words.length / 2));
    let count = 0;
    for (; 2 * count < words.length && words[2 * count] !== NO_ENTRY; count++) {
      wholeIds[count] = words[2 * count];
      wholeBits[count] = words[2 * count + 1];
    }
    return count;
  }

  #write(name, data) {
    if (!(name in this.#program.buffers)) return;
    const { buffer, offset } = this.#memory.part(name);
    this.#device.handle.queue.writeBuffer(buffer, offset, data);
  }

  #facts({ tokens, length, rows, inverse, first, kept, behind }) {
    const facts = new DataView(new ArrayBuffer(UNIFORM));
    [tokens, length, rows, 0].forEach((value, index) => facts.setUint32(4 * index, value, true));
    facts.setFloat32(16, inverse, true);
    [first, kept, behind].forEach((value, index) => facts.setUint32(20 + 4 * index, value, true));
    this.#device.handle.queue.writeBuffer(this.#uniform, 0, facts);
  }

  #encode(act) {
    const encoder = this.#device.handle.createCommandEncoder();
    act(encoder);
    this.#device.handle.queue.submit([encoder.finish()]);
  }
}
