// edgedec.wasm as JavaScript calls it: texts go in and come out as UTF-8, and failures become faults. Its functions are
// described in kernels/engine/web/edgedec_web.h. Memory may grow during every call, so views are made after calls alone.

import { Fault } from "./errors.js";

const PASS_FIELDS = [
  "tokens", "rows", "length", "full", "moves", "k", "vocabulary", "inverse", "tokenIds", "positions", "parents", "paths",
  "chosen", "from", "to", "values", "ids", "logsumexp", "entropy", "logits", "applied", "restore", "keep", "done", "below",
  "above", "kept", "keptIds",
];
const INITIAL = 512; // pages, as kernels/wasm/library.cmake says
const [PAGE, MOST] = [65536, 65535];
const STACK = 1 << 18;
const MOST_THREADS = 8;
const WAITS = Boolean(WebAssembly.promising && WebAssembly.Suspending);
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Shared memory of as many pages as this browser lets grow, and their number; phones reserve fewer. */
function sharedMemory() {
  for (let maximum = MOST; ; maximum >>= 1) {
    try {
      return [new WebAssembly.Memory({ initial: INITIAL, maximum, shared: true }), maximum];
    } catch (error) {
      if (maximum <= 2 * INITIAL) throw error;
    }
  }
}

export class Wasm {
  #exports;
  #module;
  #memory;
  #named = new Set();
  #helpers = [];
  #most;
  #next;

  /** Computes the peek that an engine, by its address, waits for; returns 0, or another number where that fails. */
  onpeek = () => Promise.resolve(1);

  constructor(instance, memory, module, most = MOST) {
    this.#exports = instance.exports;
    this.#next = WAITS ? WebAssembly.promising(this.#exports.edgedec_web_next) : null;
    this.#most = most * PAGE;
    this.#module = module;
    this.#memory = memory ?? this.#exports.memory;
    this.#exports._initialize?.();
  }

  static async load(bytes) {
    try {
      const module = await WebAssembly.compile(bytes);
      const shared = WebAssembly.Module.imports(module).some(({ kind }) => kind === "memory");
      const [memory, most] = shared ? sharedMemory() : [null, MOST];
      let made = null;
      const peek = (engine) => made.onpeek(engine >>> 0);
      const edgedec_peek = WAITS ? new WebAssembly.Suspending(peek) : () => 1;
      const env = { ...(memory && { memory }), edgedec_now: () => performance.now() / 1000, edgedec_peek };
      made = new Wasm(await WebAssembly.instantiate(module, { env }), memory, module, most);
      return made;
    } catch (error) {
      throw new Fault("unsupported", `edgedec.wasm cannot run here: ${error.message}`.slice(0, 300),
        "use a newer browser, with WebAssembly SIMD");
    }
  }

  /**
   * Start threads that help with passes, where the page is isolated from other sites; all threads are one for every two of the
   * processor, which may be halves of a core. Passes use those that have come. Returns how many threads there will be.
   */
  hire() {
    const all = Math.min(MOST_THREADS, Math.ceil((navigator.hardwareConcurrency ?? 2) / 2));
    const shared = this.#exports.__tls_size && globalThis.crossOriginIsolated;
    while (shared && this.#helpers.length + 1 < all) {
      const stack = this.alloc(STACK) + STACK;
      const tls = this.alloc(this.#exports.__tls_size.value + 64);
      const helper = new Worker(new URL("helper.js", import.meta.url), { type: "module" });
      helper.postMessage({ module: this.#module, memory: this.#memory, stack, tls });
      this.#helpers.push(helper);
    }
    return 1 + this.#helpers.length;
  }

  /** End the helpers; the module cannot compute any more. */
  close() {
    for (const helper of this.#helpers) helper.terminate();
  }

  /** Whether this browser lets the module wait for a device within a call. */
  get waits() {
    return WAITS;
  }

  /** Call `next`, within which the module may wait for peeks. */
  next(engine) {
    return this.#next(engine);
  }

  /** Bytes of memory that the module has taken. */
  get bytes() {
    return this.#memory.buffer.byteLength;
  }

  /** Bytes that it may take. */
  get most() {
    return this.#most;
  }

  floats(address, count) {
    return new Float32Array(this.#memory.buffer, address, count);
  }

  ints(address, count) {
    return new Int32Array(this.#memory.buffer, address, count);
  }

  words(address, count) {
    return new Uint32Array(this.#memory.buffer, address, count);
  }

  view(address, count) {
    return new Uint8Array(this.#memory.buffer, address, count);
  }

  /** Take memory that outlives calls; free it with `free`. */
  alloc(size) {
    const address = this.#exports.edgedec_web_alloc(size) >>> 0;
    if (address) return address;
    throw new Fault("memory", `this browser gives no ${Math.ceil(size / 1e6)} MB to WebAssembly`,
      "close other tabs, or choose a smaller model or context");
  }

  free(address) {
    this.#exports.edgedec_web_free(address);
  }

  /** Call a function with a number of the engine (left out where null), texts and other numbers. */
  call(name, engine, ...given) {
    const kept = [];
    const values = given.flatMap((value) => {
      if (typeof value !== "string") return [value];
      const bytes = encoder.encode(value);
      kept.push(this.alloc(bytes.length || 1));
      this.view(kept.at(-1), bytes.length).set(bytes);
      return [kept.at(-1), bytes.length];
    });
    try {
      return this.#exports[`edgedec_web_${name}`](...(engine === null ? [] : [engine]), ...values);
    } finally {
      for (const address of kept) this.free(address);
    }
  }

  /** Call a function that returns a code; throws what it says. */
  check(name, engine, ...given) {
    if (this.call(name, engine, ...given) !== 0) throw this.fault();
  }

  text() {
    const [at, size] = [this.#exports.edgedec_web_text() >>> 0, this.#exports.edgedec_web_text_size() >>> 0];
    return decoder.decode(this.view(at, size).slice()); // a decoder reads no shared memory
  }

  json() {
    return JSON.parse(this.text() || "null");
  }

  fault() {
    const { message = "the engine failed", hint = "" } = this.json() ?? {};
    return new Fault("engine", message, hint);
  }

  /** Hand over a file, out of its pieces; the module keeps it in the memory that they are written to. */
  async file(name, size, pieces) {
    const address = this.alloc(size || 1);
    try {
      for await (const [offset, bytes] of pieces) this.view(address + offset, bytes.length).set(bytes);
      this.#named.add(name);
      this.check("file", null, name, address, size);
    } catch (error) {
      this.free(address);
      throw error;
    }
  }

  hasFile(name) {
    return this.#named.has(name);
  }

  /** Return the numbers of the pass that the engine announced. */
  pass(engine) {
    const address = this.call("pass_of", engine) >>> 0;
    const words = this.words(address, PASS_FIELDS.length);
    const pass = Object.fromEntries(PASS_FIELDS.map((name, index) => [name, words[index]]));
    pass.inverse = this.floats(address, PASS_FIELDS.length)[PASS_FIELDS.indexOf("inverse")];
    return pass;
  }
}
