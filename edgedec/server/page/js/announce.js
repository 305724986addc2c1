// Words for screen readers: whole sentences of a reply, some seconds apart, never single tokens.

import { byId, h } from "./dom.js";

const EVERY_MS = 2500;
const SENTENCES = /^[^]*[.!?:…。！？\n](?=\s|$)/;

export class Announcer {
  #reply = null; // the one being read
  #said = 0;
  #at = 0;

  constructor(chat) {
    this.region = byId("announced");
    this.chat = chat;
    chat.addEventListener("reply", ({ detail }) => this.#grown(detail));
    chat.addEventListener("ended", ({ detail }) => this.#ended(detail));
  }

  say(text) {
    this.region.append(h("p", {}, text));
    while (this.region.children.length > 20) this.region.firstElementChild.remove();
  }

  #grown(reply) {
    if (reply !== this.#reply) {
      this.#reply = reply;
      this.#said = this.chat.run?.continued ?? 0;
      this.#at = Date.now();
    }
    if (Date.now() - this.#at < EVERY_MS) return;
    const whole = SENTENCES.exec(reply.text.slice(this.#said))?.[0];
    if (!whole) return;
    this.#said += whole.length;
    this.#at = Date.now();
    this.say(whole.trim());
  }

  #ended(reply) {
    if (!(reply.id in this.chat.conversation.messages)) return this.say("A reply in another conversation has ended.");
    const rest = reply === this.#reply ? reply.text.slice(this.#said).trim() : "";
    this.#reply = null;
    if (rest) this.say(rest);
    const ends = { whole: "The reply is complete.", cut: "The reply was cut.", failed: "There is no reply." };
    this.say(`${ends[reply.state] ?? ""} ${reply.error ?? ""}`.trim());
  }
}
