// One reply in progress: the request, its chunks, waiting for a busy server, the key, and how it ended.

import { endAs, sent } from "./conversation.js";
import { ofUsage } from "./figures.js";
import { anySeed } from "./sampling.js";
import { ServerError } from "./server.js";
import { MOST_ROUNDS, REFUSED } from "./tools.js";

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
  #toolbox;
  #calls = []; // of the part of the reply that is coming
  #toolless = false; // whether the model takes no tools

  /** Set by the owner; called after each change of the reply. */
  onchange = () => {};
  /** Set by the owner; called with a line for the person. */
  onnotice = () => {};
  /** While a busy server is left alone: the time of the next attempt, and its words. */
  waiting = null;
  /** Characters of the reply that were there before. */
  continued = 0;

  /** Takes the answer to a call that waits for one: "once", "always" or "no"; null while none waits. */
  decide = null;

  constructor(server, conversation, reply, continues, askKey, toolbox) {
    this.#server = server;
    this.#toolbox = toolbox;
    this.#continues = continues && Boolean(reply.text || reply.reasoning);
    this.#askKey = askKey;
    this.conversation = conversation;
    this.reply = reply;
    reply.seed ??= conversation.sampling.seed ?? anySeed();
    Object.assign(reply, { state: "running", reason: "", error: null, model: conversation.model });
    if (continues) this.#before = reply.figures?.tokens ?? 0;
    else Object.assign(reply, { text: "", reasoning: "", tokens: [], figures: {}, rounds: [] });
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
    this.decide?.("no");
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
        else if (error.kind === "refused" && this.#offered.length && !this.reply.rounds?.length) this.#withoutTools(error);
        else if (error.kind !== "key" || !(await this.#askKey(asked))) return this.#fail(error);
        asked ||= error.kind === "key";
        if (this.#controller.signal.aborted) return endAs(this.reply, "stopped");
      }
    }
  }

  async #attempt() {
    await this.#toolbox.load(this.#server);
    for (;;) {
      const reason = await this.#stream();
      if (reason === null) return endAs(this.reply, "lost");
      if (reason !== "stop" && reason !== "tool_calls") return endAs(this.reply, reason);
      if (!this.#calls.length) return (this.reply.state = "whole");
      await this.#answerCalls();
      if (this.#controller.signal.aborted) return endAs(this.reply, "stopped");
      if (this.reply.rounds.length >= MOST_ROUNDS) return endAs(this.reply, "rounds");
    }
  }

  /** Take one answer of the server; return the reason of its end. */
  async #stream() {
    this.#calls = [];
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
    return reason;
  }

  /** Carry out the calls that came, one after the other; each is asked for unless it is allowed. */
  async #answerCalls() {
    const { reply, conversation } = this;
    const calls = this.#calls.map((call) => ({ ...call, server: this.#toolbox.named(call.name)?.server ?? "", state: "", result: "" }));
    (reply.rounds ??= []).push({ text: reply.text, calls });
    Object.assign(reply, { text: "", reasoning: "", tokens: [] });
    this.#continues = false;
    this.continued = 0;
    for (const call of calls) {
      if (this.#controller.signal.aborted) return;
      let choice = this.#toolbox.mayCall(conversation, call.name) ? "once" : "no";
      if (this.#toolbox.named(call.name) && choice === "no") choice = await this.#asked(call);
      if (choice === "always") this.#toolbox.allowAlways(conversation, call.name);
      if (choice === "no") Object.assign(call, { state: "refused", result: this.#toolbox.named(call.name) ? REFUSED : `there is no tool ${call.name}` });
      else await this.#call(call);
      this.onchange();
    }
  }

  #asked(call) {
    call.state = "asked";
    return new Promise((resolve) => {
      this.decide = (choice) => {
        this.decide = null;
        resolve(choice);
      };
      this.onchange();
    });
  }

  async #call(call) {
    call.state = "running";
    this.onchange();
    try {
      const { text, failed } = await this.#toolbox.call(this.#server, call, this.#controller.signal);
      Object.assign(call, { state: failed ? "failed" : "done", result: String(text) });
    } catch (error) {
      if (error.name === "AbortError") return Object.assign(call, { state: "refused", result: "the user stopped this call" });
      Object.assign(call, { state: "failed", result: error instanceof SyntaxError ? "wrong arguments: they are no JSON" : error.message });
    }
  }

  #take(choice) {
    const { reply } = this;
    reply.text += choice.delta?.content ?? "";
    reply.reasoning += choice.delta?.reasoning_content ?? "";
    for (const delta of choice.delta?.tool_calls ?? []) {
      if (delta.id) this.#calls.push({ id: delta.id, name: delta.function?.name ?? "", arguments: "" });
      if (this.#calls.length) this.#calls.at(-1).arguments += delta.function?.arguments ?? "";
    }
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

  /** Ask again without tools: the model may know none, or the context may have no room for them. */
  #withoutTools(error) {
    this.#toolless = true;
    this.onnotice(`Asked without tools. ${error.message}`);
  }

  get #offered() {
    return this.#toolless || this.#toolbox.offered.length === 0 ? [] : this.#toolbox.offered;
  }

  #body() {
    const { conversation, reply } = this;
    const tools = this.#offered;
    return {
      ...(tools.length ? { tools } : {}),
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
