// One reply in progress: the request, its chunks, waiting for a busy server, the key, and how it ended.

import { endAs, sent } from "./conversation.js";
import { ofUsage } from "./figures.js";
import { anySeed } from "./sampling.js";
import { ServerError } from "./server.js";

const MOST_WAITS = 20;

export class Run {
  #server;
  #askKey;
  #continues;
  #controller = new AbortController();
  #finished = null;
  #wake = null;
  #first = null;
  #counted = 0;
  #before = 0; // tokens of the reply that this one continues

  /** Set by the owner; called after each change of the reply. */
  onchange = () => {};
  /** While a busy server is left alone: the time of the next attempt, and its words. */
  waiting = null;
  /** Characters of the reply that were there before. */
  continued = 0;

  constructor(server, conversation, reply, continues, askKey) {
    this.#server = server;
    this.#continues = continues;
    this.#askKey = askKey;
    this.conversation = conversation;
    this.reply = reply;
    reply.seed ??= conversation.sampling.seed ?? anySeed();
    Object.assign(reply, { state: "running", reason: "", error: null, model: conversation.model });
    if (continues) this.#before = reply.figures?.tokens ?? 0;
    else Object.assign(reply, { text: "", reasoning: "", tokens: [], figures: {} });
    this.continued = reply.text.length;
  }

  /** Resolves when the reply has ended, in whichever way; the first call starts it. */
  finished() {
    this.#finished ??= this.#attempts();
    return this.#finished;
  }

  stop() {
    this.#controller.abort();
    this.#wake?.();
    return this.#finished;
  }

  /** End a wait for a busy server now. */
  tryNow() {
    this.#wake?.();
  }

  async #attempts() {
    let asked = false;
    for (let waits = 0; ; ) {
      try {
        return await this.#attempt();
      } catch (error) {
        if (this.#controller.signal.aborted) return endAs(this.reply, "stopped");
        if (error.kind === "busy" && waits++ < MOST_WAITS) await this.#wait(error);
        else if (error.kind !== "key" || !(await this.#askKey(asked))) return this.#fail(error);
        asked ||= error.kind === "key";
        if (this.#controller.signal.aborted) return endAs(this.reply, "stopped");
      }
    }
  }

  async #attempt() {
    let reason = null;
    let usage = null;
    for await (const chunk of this.#server.reply(this.#body(), this.#controller.signal)) {
      usage = chunk.usage ?? usage;
      const choice = chunk.choices?.[0];
      if (choice) this.#take(choice);
      // The server's own reasons are more than OpenAI's.
      reason = choice?.edgedec?.finish_reason ?? choice?.finish_reason ?? reason;
      if (choice) this.onchange();
    }
    if (usage) this.reply.figures = ofUsage(usage);
    if (usage) this.reply.figures.tokens += this.#before;
    if (reason === null) return endAs(this.reply, "lost");
    if (reason === "stop" || reason === "tool_calls") this.reply.state = "whole";
    else endAs(this.reply, reason);
  }

  #take(choice) {
    const { reply } = this;
    reply.text += choice.delta?.content ?? "";
    reply.reasoning += choice.delta?.reasoning_content ?? "";
    for (const token of choice.edgedec?.tokens ?? []) reply.tokens.push([token.text, token.source ?? null]);
    this.#count(choice.edgedec?.tokens?.length ?? 0);
  }

  /** Keep figures of the reply so far, from the time of its first tokens. */
  #count(tokens) {
    if (!tokens) return;
    this.#first ??= { at: Date.now(), tokens };
    this.#counted += tokens;
    const seconds = (Date.now() - this.#first.at) / 1000;
    const rate = seconds > 0.5 ? (this.#counted - this.#first.tokens) / seconds : null;
    this.reply.figures = { tokens: this.#before + this.#counted, rate };
  }

  #body() {
    const { conversation, reply } = this;
    return {
      ...conversation.sampling,
      ...(conversation.model === null ? {} : { model: conversation.model }),
      seed: reply.seed,
      messages: sent(conversation, reply, this.#continues),
      stream: true,
      stream_options: { include_usage: true },
      edgedec: { sources: true, ...(this.#continues ? { continue: true } : {}) },
    };
  }

  async #wait(error) {
    const seconds = Math.max(1, error.retryAfter);
    this.waiting = { until: Date.now() + seconds * 1000, message: error.message };
    this.onchange();
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.waiting = null;
    this.#wake = null;
    this.onchange();
  }

  #fail(error) {
    const known = error instanceof ServerError;
    if (!known) console.error(error);
    const message = known ? error.message : "The server's answer cannot be read.";
    endAs(this.reply, error.kind === "gone" ? "lost" : "error", message);
  }
}
