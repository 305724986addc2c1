// From the list of files to an engine that can reply: chooses what computes, fetches what that needs, and puts it together.

import { Engine, checkFits } from "./engine.js";
import { Fault } from "./errors.js";
import { runsFast } from "./fast.js";
import { Files, contents } from "./files.js";
import { findGpu, fuses, openGpu } from "./gpu/adapter.js";
import { Gpu } from "./gpu/gpu.js";
import { Store } from "./store.js";
import { Wasm } from "./wasm.js";

const FAST = runsFast();
const APART = "gated MLPs take two dispatches: this adapter's compiler takes minutes for one";
/** Why drafters, by their kinds, do not draft beside a GPU. */
const HIDDEN = "hidden states stay on the GPU";
const WHY = {
  mtp: HIDDEN, head: HIDDEN, assistant: "keys and values stay on the GPU", model: "the GPU computes one model",
  trim: "this browser's WebAssembly cannot wait for a GPU",
};

export class Model {
  #base;
  #state;
  #opening = null; // a promise: several calls may look at the same time
  #list = null;
  #store = null;
  #files = null;
  #wasm = null;
  #settings = null;
  #costs = ""; // the file with what passes cost
  #stop = new AbortController();

  engine = null;

  constructor(base, state) {
    this.#base = base;
    this.#state = state;
  }

  /** Say what the model is, and how much of it has to be fetched. */
  async look(settings) {
    await (this.#opening ??= this.#open());
    const files = this.#filesFor([]);
    const wanted = settings.device !== "cpu" && this.#list.parts.program;
    const gpu = wanted && (await findGpu(settings.device === "gpu").catch(() => null));
    const names = this.#needed(gpu && this.#program(fuses(gpu[0])));
    const { name, preset, context, chat } = this.#list;
    const total = names.reduce((sum, each) => sum + files.entry(each).bytes, 0);
    return { name, preset, context, chat, total, missing: await files.missing(names) };
  }

  async #open() {
    try {
      this.#list = await contents(this.#base);
      this.#store = await Store.open(this.#base);
    } catch (error) {
      this.#opening = null; // the next look tries again
      throw error;
    }
  }

  /** Fetch what is missing and make the engine; `settings.device`: auto, gpu or cpu. */
  async load(settings) {
    await this.look(settings);
    this.close();
    this.#settings = settings;
    this.#stop = new AbortController();
    const [gpu, why] = await this.#gpu();
    try {
      await this.#make(gpu, why);
    } catch (error) {
      this.close();
      // A GPU that refuses leaves the CPU, unless the GPU was asked for.
      if (!gpu || settings.device === "gpu" || !["device", "lost"].includes(error.kind)) throw error;
      await this.#make(null, error.message);
    }
    this.#state.set({ phase: "ready", fault: null });
  }

  /** Stop fetching; what came stays for the next time. */
  cancel() {
    this.#stop.abort(new DOMException("stopped", "AbortError"));
  }

  /** Delete what the browser keeps of the model. */
  async remove() {
    this.close();
    await this.#store?.clear();
  }

  close() {
    this.engine?.close();
    this.#wasm?.close();
    this.engine = this.#wasm = null;
  }

  /** Return an open GPU and "", or null and why there is none. */
  async #gpu() {
    const { device } = this.#settings;
    if (device === "cpu") return [null, "chosen in the settings"];
    if (!this.#list.parts.program) {
      const why = this.#list.refused || "GPUs do not run this model's layers";
      if (device === "gpu") throw new Fault("unsupported", why, "choose the CPU in the settings");
      return [null, why];
    }
    try {
      return [await openGpu(device === "gpu"), ""];
    } catch (error) {
      if (device === "gpu" || error.kind !== "device") throw error;
      return [null, error.message];
    }
  }

  async #make(gpu, why) {
    const { parts } = this.#list;
    await this.#fetching(this.#needed(gpu && this.#program(gpu.fuses)));
    this.#wasm = await Wasm.load(await this.#files.whole(this.#module));
    await this.#hand(parts.engine);
    this.#costs = costsName(gpu);
    const costs = JSON.parse((await this.#store?.text(this.#costs)) ?? "null");
    const { context, max_pass } = this.#list;
    this.engine = new Engine(this.#wasm, { context, max_pass, memory: this.#wasm.most, ...(costs && { costs }) });
    this.engine.onlost = (error) => this.#goOnWithoutGpu(error);
    if (gpu) await this.#useGpu(gpu);
    else await this.#useCpu(why);
    await this.#prune();
    if (!this.engine.facts.costs) await this.#measure();
    this.#tell(gpu);
  }

  /** Say which drafters draft, and what the engine goes without. `gpu`: the device, or null. */
  #tell(gpu) {
    const { draft, kv = "fp16", notes = [] } = this.engine.facts;
    const apart = gpu && !gpu.fuses && this.#list.parts.apart ? [APART] : [];
    this.#state.set({ drafters: draft, cpuDrafters: gpu ? this.#onCpu() : [], kv, notes: [...notes, ...apart] });
  }

  async #useGpu(gpu) {
    const parts = { ...this.#list.parts, program: this.#program(gpu.fuses) };
    const computer = await Gpu.make(gpu, this.#files, parts, this.engine, this.#wasm);
    this.engine.use(computer);
    if (computer.exits.length && this.#wasm.waits) this.engine.peek(computer.exits);
    const { title, exact, failed, memory } = computer;
    this.#state.set({ device: { kind: "gpu", title, exact, failed, why: "" }, memory });
  }

  async #useCpu(why) {
    const { cpu, weights } = this.#list.parts;
    checkFits([...cpu, weights].reduce((sum, name) => sum + this.#files.entry(name).bytes, 0));
    await this.#hand([...cpu, weights]);
    const threads = this.#wasm.hire();
    this.engine.useCpu();
    const title = threads > 1 ? `CPU, ${threads} threads` : "CPU";
    const memory = { used: this.#wasm.bytes, planned: this.engine.facts.memory };
    this.#state.set({ device: { kind: "cpu", title, exact: true, failed: [], why }, memory });
  }

  async #goOnWithoutGpu(error) {
    await this.#fetching(this.#needed(null));
    await this.#useCpu(error.message);
    this.#costs = costsName(null);
    this.#tell(null);
    this.#state.set({ phase: "ready" });
  }

  /** Make ready to fetch some files, and say so. */
  async #fetching(names) {
    this.#files = this.#filesFor(names);
    this.#state.set({ phase: "fetching", fault: null, notice: null });
    await this.#files.makeRoom(names);
  }

  async #measure() {
    this.#state.set({ phase: "preparing" });
    const costs = await this.engine.measure();
    await this.keepCosts(costs);
    this.engine.reopen({ costs });
  }

  /** Keep what passes cost for the next start. */
  async keepCosts(costs) {
    await this.#store?.keep(this.#costs, JSON.stringify(costs));
  }

  /** Hand files to the module, by their names in the bundle, where it has them not yet. */
  async #hand(names) {
    for (const name of names) {
      const own = name.replace(/^model\//, "");
      if (this.#wasm.hasFile(own)) continue;
      await this.#wasm.file(own, this.#files.entry(name).bytes, this.#files.pieces(name));
    }
  }

  /** Delete files of another export of this page. */
  async #prune() {
    const wanted = new Set(Object.values(this.#list.files).map(({ sha256 }) => sha256));
    for (const name of (await this.#store?.sizes())?.keys() ?? []) {
      if (/^[0-9a-f]{64}$/.test(name) && !wanted.has(name)) await this.#store.remove(name);
    }
  }

  #filesFor(names) {
    const done = new Map();
    const total = names.reduce((sum, name) => sum + this.#list.files[name].bytes, 0);
    const told = (one) => {
      done.set(one.name, one.done);
      const sum = [...done.values()].reduce((before, each) => before + each, 0);
      this.#state.progress({ done: sum, total, waiting: one.waiting });
    };
    const full = (notice) => this.#state.set({ notice });
    return new Files(this.#base, this.#list, this.#store, { signal: this.#stop.signal, told, full });
  }

  get #module() {
    return this.#list.parts[FAST ? "fast" : "wasm"];
  }

  /** The program for a GPU; `fused`: whether its compiler takes fused kernels. */
  #program(fused) {
    const { program, apart } = this.#list.parts;
    return fused ? program : (apart ?? program);
  }

  /** Say which drafters draft on the CPU alone, and why. */
  #onCpu() {
    const kinds = this.#list.drafters.filter((kind) => kind !== "trim" || !this.#wasm.waits);
    return kinds.map((kind) => `${kind} on the CPU alone: ${WHY[kind] ?? WHY.model}`);
  }

  /** Files that are needed; `program`: that of a GPU, or null for the CPU. */
  #needed(program) {
    const { engine, weights, cpu, shaders, probe } = this.#list.parts;
    return [this.#module, ...engine, ...(program ? [shaders, probe, program] : cpu), weights];
  }
}

const costsName = (gpu) => `costs-${gpu ? gpu.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60) : "cpu"}.json`;
