// Replies: edgedec.wasm says which pass it needs, a computer (a GPU, or the CPU through the same module) computes it, and
// tokens come out. Where a GPU is lost, the CPU computes the rest of the reply, with the same tokens.

import { Fault } from "./errors.js";

export class Engine {
  #wasm;
  #address = 0;
  #options;
  #stopped = false;
  #exits = null; // of a device that peeks
  #closed = false;

  /** The maker of passes: `compute(pass)` and `close()`; it may throw a fault of the kind "lost". */
  computer = null;

  /** Set by the owner: puts another computer in the place of one that was lost, or throws. */
  onlost = (error) => Promise.reject(error);

  constructor(wasm, options) {
    this.#wasm = wasm;
    this.#open(options);
  }

  /** Open it again with further options; the files stay with the module. The conversation is forgotten. */
  reopen(more) {
    const before = this.#address;
    this.#open({ ...this.#options, ...more });
    this.#wasm.call("close", before);
    if (this.computer instanceof Cpu) this.useCpu();
    else if (this.#exits) this.peek(this.#exits);
  }

  use(computer) {
    this.computer?.close();
    this.computer = computer;
  }

  /** Have layers of the model draft with peeks of the computer, which has these exits. */
  peek(exits) {
    this.check("peeks", JSON.stringify({ exits }), 0);
    this.facts = this.#wasm.json();
    this.#exits = exits;
    this.#wasm.onpeek = (address) => this.#peek(address);
  }

  /** Have the module compute passes itself. */
  useCpu() {
    this.#exits = null;
    this.check("cpu");
    this.facts = this.#wasm.json();
    this.use(new Cpu(this));
  }

  /** Call a function of the module that returns a code; throws what it says. */
  check(name, ...given) {
    this.#wasm.check(name, this.#address, ...given);
  }

  /** Measure what passes cost; returns what the option `costs` takes at another start. */
  async measure() {
    this.check("measure");
    return (await this.#turns(() => {})).costs;
  }

  /** Compute a reply; `heard` gets the tokens of each pass. Returns its figures. */
  async reply(request, heard) {
    this.#stopped = false;
    this.check("begin", JSON.stringify(request));
    const begun = this.#wasm.json();
    return { ...begun, ...(await this.#turns(heard)) };
  }

  stop() {
    this.#stopped = true;
    this.#wasm.call("stop", this.#address);
  }

  stats() {
    this.check("stats");
    return this.#wasm.json();
  }

  close() {
    this.#closed = true;
    this.computer?.close();
    this.#wasm.call("close", this.#address);
  }

  #open(options) {
    const address = this.#wasm.call("open", null, JSON.stringify(options)) >>> 0;
    if (!address) throw this.#wasm.fault();
    this.#address = address;
    this.#options = options;
    this.facts = this.#wasm.json();
  }

  async #turns(heard) {
    for (;;) {
      const code = this.#exits ? await this.#wasm.next(this.#address) : this.#wasm.call("next", this.#address);
      if (code < 0) throw this.#wasm.fault();
      if (code === 0) return this.#wasm.json();
      const began = performance.now();
      if (!(await this.#computed())) continue;
      this.check("give", (performance.now() - began) / 1000);
      const tokens = this.#wasm.json();
      if (tokens.length) heard(tokens);
    }
  }

  /** Compute a peek. Where the device fails, the pass behind it finds out; of an engine that was closed nothing goes on. */
  async #peek(address) {
    const failed = await this.computer.compute(this.#wasm.pass(address)).then(() => 0, () => 1);
    return this.#closed ? new Promise(() => {}) : failed;
  }

  /** Compute the announced pass; false where the device was lost and another one took its place. */
  async #computed() {
    try {
      await this.computer.compute(this.#wasm.pass(this.#address));
      return true;
    } catch (error) {
      if (error.kind !== "lost") throw error;
      this.#wasm.call("lost", this.#address);
      await this.onlost(error);
      if (this.#stopped) this.stop();
      return false;
    }
  }
}

/** Passes in WebAssembly. After each one the worker hears its messages, such as one that stops the reply. */
class Cpu {
  #engine;
  #channel = new MessageChannel();

  constructor(engine) {
    this.#engine = engine;
  }

  async compute() {
    this.#engine.check("compute");
    await new Promise((resolve) => {
      this.#channel.port1.onmessage = resolve;
      this.#channel.port2.postMessage(null);
    });
  }

  close() {
    this.#channel.port1.close();
  }
}

const MOST_WEIGHTS = 3.5e9; // wasm32 addresses 4 GiB

/** Throw where WebAssembly cannot hold so many bytes of files. */
export function checkFits(bytes) {
  if (bytes <= MOST_WEIGHTS) return;
  throw new Fault("unsupported", "the model and its drafters have more bytes than WebAssembly addresses", "compute on the GPU");
}
