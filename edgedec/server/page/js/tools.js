// Tools of the server: which there are, which calls the person allowed, and how calls are shown.

import { h } from "./dom.js";

export const MOST_ROUNDS = 20; // of calls in one reply; a model may call without end
export const REFUSED = "the user did not allow this call";

/** The tools that replies may call. */
export class Toolbox {
  #found = null;
  #token = null;
  #always = new Set();

  /** Ask the server once; one without tools, or without the path, has none. */
  async load(server) {
    if (this.#found) return;
    try {
      const { tools, token } = await server.tools();
      this.#found = tools ?? [];
      this.#token = token ?? null;
    } catch (error) {
      if (error.kind !== "refused") throw error;
      this.#found = [];
    }
  }

  /** The tools as a request has them. */
  get offered() {
    return (this.#found ?? []).map((one) => one.tool);
  }

  named(name) {
    return this.#found?.find((one) => one.tool.function.name === name) ?? null;
  }

  mayCall(conversation, name) {
    return this.named(name)?.allowed || this.#always.has(`${conversation.id} ${name}`);
  }

  allowAlways(conversation, name) {
    this.#always.add(`${conversation.id} ${name}`);
  }

  call(server, call, signal) {
    return server.call(this.#token, { name: call.name, arguments: JSON.parse(call.arguments || "{}") ?? {}, confirmed: true }, signal);
  }
}

const STATES = { asked: "waits for your answer", running: "is called…", done: "was called", failed: "failed", refused: "was not called" };

/** Return the calls of a message, with buttons for the one that waits; `decide` gets "once", "always" or "no". */
export function callsOf(message, decide) {
  return (message.rounds ?? []).flatMap((round) => [
    ...(round.text.trim() ? [h("p", { class: "plain" }, round.text)] : []),
    ...round.calls.map((call) => callView(call, decide)),
  ]);
}

function callView(call, decide) {
  const waits = call.state === "asked" && decide !== null;
  const button = (label, choice, kind) =>
    h("button", { type: "button", class: kind, onclick: () => decide(choice) }, label);
  return h("details", { class: "call", open: waits },
    h("summary", {}, h("code", {}, call.name), ` ${call.server ? `of ${call.server} ` : ""}${STATES[call.state] ?? ""}`),
    h("pre", { class: "given", tabindex: "0", "aria-label": "Arguments" }, call.arguments),
    waits
      ? h("div", { class: "actions", role: "group", "aria-label": `Call ${call.name}?` },
          button("Call it", "once", "main"), button("Always in this chat", "always", "quiet"), button("Refuse", "no", "quiet"))
      : call.result ? h("pre", { class: "result", tabindex: "0", "aria-label": "Result" }, call.result) : null);
}

/** Return a text that changes when calls have to be drawn again. */
export const stateOfCalls = (message) =>
  (message.rounds ?? []).map((round) => round.calls.map((call) => call.state).join()).join(";");
