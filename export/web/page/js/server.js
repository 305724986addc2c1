// Takes the place of the HTTP interface: the same requests and answers, from the worker that holds the model in this tab.
// The rest of the page does not know the difference.

import { html } from "./blocks.js";
import { chunkOf, endOf, requestOf, sentence } from "./chunks.js";

export class ServerError extends Error {
  /** kinds: refused (it cannot be done so), broken (something failed). */
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

const INSECURE = {
  message: "this page needs https, or http on this computer itself (localhost)",
  hint: "browsers keep storage and GPUs from other addresses",
};

/** The worker, with calls as promises; its events are those of this object: "state" and "tokens". */
class Worked extends EventTarget {
  #worker = null;
  #answers = new Map();
  #last = 0;

  state = { phase: "absent", done: 0, total: 0, device: null, memory: null, notice: null, fault: null };

  constructor() {
    super();
    if (!isSecureContext) return this.#broken(INSECURE);
    this.#worker = new Worker(new URL("../../run/worker.js", import.meta.url), { type: "module" });
    this.#worker.addEventListener("message", ({ data }) => this.#hear(data));
    this.#worker.addEventListener("error", (event) => {
      event.preventDefault();
      this.#broken({ message: "the part of the page that runs the model has failed", hint: "reload it in a newer browser" });
    });
  }

  /** Call a function of the worker; `started` gets the number that its events have. */
  call(name, given = {}, started = () => {}) {
    if (!this.#worker) return Promise.reject(errorOf(this.state.fault));
    const id = ++this.#last;
    started(id);
    return new Promise((resolve, reject) => {
      this.#answers.set(id, { resolve, reject });
      this.#worker.postMessage({ id, call: name, given });
    });
  }

  #hear({ id, event, value, fault, state, tokens }) {
    if (event === "state") this.#set(state);
    else if (event) this.dispatchEvent(new CustomEvent(event, { detail: { id, tokens } }));
    else {
      const answer = this.#answers.get(id);
      this.#answers.delete(id);
      if (fault) answer.reject(errorOf(fault));
      else answer.resolve(value);
    }
  }

  /** Show a fault that leaves nothing loaded. */
  fail(fault) {
    this.#set({ ...this.state, phase: "failed", fault });
  }

  #broken(fault) {
    this.#worker = null;
    this.fail(fault);
    for (const { reject } of this.#answers.values()) reject(errorOf(fault));
    this.#answers.clear();
  }

  #set(state) {
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}

export const worked = new Worked();

export class Server {
  hasKey = false;

  setKey() {}

  #name = "";

  async models() {
    const { name, preset, context, chat } = await worked.call("look");
    this.#name = name;
    return [{ id: name, edgedec: { preset, context, chat } }];
  }

  /** A page without a server has no tools. */
  async tools() {
    return { tools: [] };
  }

  async status() {
    const { waiting, running } = await worked.call("stats");
    const { used = 0, planned = null } = worked.state.memory ?? {};
    return { memory_bytes: used, memory_budget_bytes: planned, waiting, running, models: this.#models() };
  }

  #models() {
    const { phase } = worked.state;
    return phase === "absent" ? [] : [{ name: this.#name, state: phase === "ready" ? "ready" : "loading" }];
  }

  async markdown(text) {
    return html(text);
  }

  /** Yield the chunks of a reply. */
  async *reply(body, signal) {
    const heard = [];
    let wake = () => {};
    let ended = null;
    let id = 0;
    const take = ({ detail }) => {
      if (detail.id === id) heard.push(...detail.tokens);
      wake();
    };
    const stop = () => worked.call("stop", { id }).catch(() => {});
    worked.addEventListener("tokens", take);
    worked.call("reply", requestOf(body), (given) => (id = given)).then(
      (figures) => (ended = { figures }), (error) => (ended = { error }),
    ).finally(() => wake());
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop);
    try {
      for (;;) {
        while (heard.length) yield chunkOf(heard.splice(0));
        if (ended) break;
        await new Promise((resolve) => (wake = resolve));
      }
    } finally {
      worked.removeEventListener("tokens", take);
      signal.removeEventListener("abort", stop);
    }
    if (ended.error) throw ended.error;
    yield* endOf(ended.figures, worked.state.memory);
    signal.throwIfAborted();
  }
}

const errorOf = (fault) => new ServerError(fault.kind === "broken" ? "broken" : "refused", sentence(fault));
