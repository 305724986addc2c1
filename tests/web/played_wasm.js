// Takes the place of run/wasm.js in tests: an engine without a model, which replies by a script, a token a pass.

import { Fault } from "./errors.js";

const FACTS = { model: "played", context: 256, max_pass: 128, draft: ["lookup"], costs: false, memory: 60e6 };
const DRAFTERS = [null, "lookup", "recycling", null, "tables"];
const PASS_MS = 4;

const STORY = Array.from({ length: 40 }, (_, number) => `Sentence ${number + 1} of a long story goes on here. `).join("");
const KNOWN = { story: STORY, hostile: `<script>document.title = "taken"</script> [a](javascript:1) ![p](https://example.org/t.png)`,
  code: "One line:\n\n```python\ndef f(): return 1\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n- *one*\n- **two**\n" };

function replyTo(messages) {
  const asked = messages.findLast((one) => one.role === "user").content;
  if (asked.includes("fail")) throw new Fault("engine", "the engine failed as asked", "ask something else");
  const known = Object.keys(KNOWN).find((word) => asked.includes(word));
  return (known ? KNOWN[known] : `You said: ${asked}`).split(/(?<= )/);
}

export class Wasm {
  #text = "null";
  #files = new Map();
  #facts = FACTS;
  #task = null;
  #latest = null;
  bytes = 64e6;
  most = 4e9;

  static async load(bytes) {
    if (!bytes.length) throw new Fault("unsupported", "edgedec.wasm cannot run here", "");
    return new Wasm();
  }

  hire() {
    return 1;
  }

  close() {}

  json() {
    return JSON.parse(this.#text);
  }

  fault() {
    return new Fault("engine", this.json().message, "");
  }

  hasFile(name) {
    return this.#files.has(name);
  }

  async file(name, size, pieces) {
    let sum = 0;
    for await (const [, bytes] of pieces) sum += bytes.length;
    this.#files.set(name, sum);
    if (sum !== size) throw new Fault("engine", `${name} has ${sum} bytes, not ${size}`, "");
  }

  pass() {
    return { tokens: 1 };
  }

  check(name, engine, given) {
    if (name === "measure") this.#task = { name, pieces: ["", "", ""], at: 0 };
    if (name === "begin") this.#begin(JSON.parse(given));
    if (name === "compute") for (const began = performance.now(); performance.now() - began < PASS_MS; );
    if (name === "give") this.#give();
    if (name === "stats") this.#say({ drafters: {} });
    if (name === "cpu") this.#say(this.#facts);
  }

  call(name, engine, given) {
    if (name === "open") this.#say((this.#facts = { ...FACTS, costs: Boolean(JSON.parse(given).costs) }));
    if (name === "stop" && this.#task) this.#task.stopped = true;
    if (name === "next") return this.#next();
    return 1;
  }

  #begin(request) {
    if (request.continue) this.#task = { ...this.#latest, stopped: false };
    else this.#task = { name: "reply", pieces: replyTo(request.messages), at: 0 };
    this.#task.most = request.max_tokens ? this.#task.at + request.max_tokens : Infinity;
    this.#task.began = this.#task.at;
    this.#say({ prompt_tokens: 7, reused_tokens: 2, dropped_messages: 0 });
  }

  #next() {
    const { name, pieces, at, stopped, most, began } = this.#task;
    if (!stopped && at < Math.min(pieces.length, most ?? Infinity)) return 1;
    const reason = stopped ? "interrupted" : at < pieces.length ? "length" : "stop";
    const tokens = at - began;
    this.#latest = this.#task;
    const figures = { finish_reason: reason, completion_tokens: tokens, decode_s: 0.004 * tokens, passes: tokens / 2, accepted_tokens: 3 };
    this.#say(name === "measure" ? { costs: [[1, 0.01], [2, 0.01]] } : figures);
    return 0;
  }

  #give() {
    const at = this.#task.at++;
    const token = { id: at, text: this.#task.pieces[at], drafter: DRAFTERS[at % DRAFTERS.length], seconds: 0.004 * at };
    this.#say(this.#task.name === "measure" ? [] : [token]);
  }

  #say(value) {
    this.#text = JSON.stringify(value);
  }
}
