// Replies one after the other: the engine computes one at a time, and several conversations may ask.

import { Fault } from "./errors.js";

export class Replies {
  #turn = Promise.resolve();
  #waiting = new Map();
  #engine = null;
  #current = null; // the id of the reply that the engine computes
  #latest = null; // what the engine can continue

  /** Replies that wait or run. */
  count = 0;

  /** Compute a reply when its turn comes; `heard` gets the tokens of each pass. Returns its figures. */
  ask(engine, id, { request, continues }, heard) {
    this.count += 1;
    const mine = { id, stopped: false };
    this.#waiting.set(id, mine);
    const asked = this.#turn.then(() => this.#reply(engine, mine, request, continues, heard));
    this.#turn = asked.catch(() => {});
    return asked.finally(() => {
      this.count -= 1;
      this.#waiting.delete(id);
    });
  }

  stop(id) {
    const mine = this.#waiting.get(id);
    if (mine) mine.stopped = true;
    if (this.#current === id) this.#engine?.stop();
  }

  async #reply(engineOf, mine, request, continues, heard) {
    if (mine.stopped) return { finish_reason: "interrupted" };
    const engine = await engineOf();
    if (mine.stopped) return { finish_reason: "interrupted" };
    [this.#engine, this.#current] = [engine, mine.id];
    const key = keyOf(request);
    const reply = { key, text: continues?.text ?? "", thought: continues?.thought ?? "" };
    const onward = (tokens) => {
      add(reply, tokens);
      heard(tokens);
    };
    try {
      if (continues === null) return await engine.reply(request, onward);
      if (this.#latest?.engine === engine && this.#latest.key === key && same(this.#latest, continues)) {
        const { max_tokens, sampling, seed, stop, draft, schema, choices } = request;
        return await engine.reply({ continue: true, max_tokens, sampling, seed, stop, draft, schema, choices }, onward);
      }
      return await this.#again(engine, request, continues, onward);
    } finally {
      this.#latest = { engine, ...reply };
      this.#current = this.#engine = null;
    }
  }

  /** Compute a reply once more, up to where it ended, and on: the same seed and settings give the same tokens. */
  async #again(engine, { max_tokens: most, ...request }, before, heard) {
    const skipped = { text: "", thought: "" };
    let after = 0;
    const figures = await engine.reply(request, (tokens) => {
      const fresh = [];
      for (const token of tokens) {
        if (sizeOf(skipped) < sizeOf(before)) add(skipped, [token]);
        else if (!most || after < most) fresh.push(token);
      }
      if (!begins(before, skipped)) engine.stop();
      after += fresh.length;
      if (fresh.length) heard(fresh);
      if (most && after >= most) engine.stop();
    });
    if (!begins(before, skipped)) {
      throw new Fault("unsupported", "the reply came out otherwise: its settings have changed since", "retry it");
    }
    return most && after >= most ? { ...figures, completion_tokens: after, finish_reason: "length" } : figures;
  }
}

/** Add the text of tokens to a reply's. */
function add(reply, tokens) {
  for (const { text, thought = "" } of tokens) {
    reply.text += text;
    reply.thought += thought;
  }
}

const PARTS = ["thought", "text"];
const sizeOf = (reply) => reply.text.length + reply.thought.length;
const same = (a, b) => PARTS.every((part) => a[part] === b[part]);

/** Say whether `skipped` is the beginning of the reply `before`, or goes on behind it. */
const begins = (before, skipped) => PARTS.every((part) => before[part].startsWith(skipped[part].slice(0, before[part].length)));

/** Return what a reply depends on; how long it may be is not part of it. */
const keyOf = ({ messages, sampling, seed, schema, choices }) => JSON.stringify([messages, sampling, seed, schema, choices]);
