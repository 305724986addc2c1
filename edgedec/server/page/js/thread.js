// The messages of the open conversation. It follows a growing reply while its end is in view.

import { path } from "./conversation.js";
import { byId, copyText, h } from "./dom.js";
import { messageView } from "./message.js";
import { legend } from "./sources.js";

const NEAR_PX = 80;
const TICK_MS = 50;

export class Thread {
  #views = new Map();
  #follows = true;
  #due = null;
  #options = { marked: false, progress: () => "", grown: () => this.#follow() };

  /** `progress` says what a reply of a model waits for. */
  constructor(chat, server, progress) {
    this.chat = chat;
    this.server = server;
    this.#options.progress = progress;
    this.scroller = byId("scroller");
    this.list = byId("messages");
    this.end = byId("to-end");
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.end.addEventListener("click", () => this.toEnd());
    this.list.addEventListener("click", copyCode);
    new ResizeObserver(() => this.#follow()).observe(this.scroller);
    chat.addEventListener("open", () => this.show(true));
    chat.addEventListener("change", () => this.show());
    chat.addEventListener("reply", ({ detail }) => this.#soon(detail));
    setInterval(() => this.#progress(), 1000);
  }

  /** Whether replies are shown as tokens with their drafters. */
  get marked() {
    return this.#options.marked;
  }

  set marked(value) {
    this.#options.marked = value;
    this.show();
    this.#follow();
  }

  show(another = false) {
    const messages = path(this.chat.conversation);
    if (another) {
      this.#views.clear();
      this.list.replaceChildren();
    }
    const shown = new Set(messages.map((message) => message.id));
    for (const [id, view] of this.#views) {
      if (shown.has(id)) continue;
      view.element.remove();
      this.#views.delete(id);
    }
    messages.forEach((message, index) => {
      const known = this.#views.get(message.id);
      const view = known ?? messageView(this.chat, this.server, message, this.#options);
      this.#views.set(message.id, view);
      if (known) view.update();
      if (this.list.children[index] !== view.element) this.list.insertBefore(view.element, this.list.children[index] ?? null);
    });
    byId("empty").hidden = messages.length > 0;
    this.#showLegend(messages);
    if (another || messages.at(-1)?.state === "running") this.toEnd();
  }

  toEnd() {
    this.#follows = true;
    this.#follow();
  }

  /** Begin to edit the last question. */
  editLast() {
    const last = path(this.chat.conversation).findLast((message) => message.role === "user");
    if (last && !this.chat.run) this.#views.get(last.id).edit();
  }

  #showLegend(messages) {
    const box = byId("legend");
    box.hidden = !this.marked;
    if (this.marked) box.replaceChildren(...legend(messages));
  }

  /** Update a growing reply, a few times a second however fast tokens come. */
  #soon(reply) {
    this.#due ??= setTimeout(() => {
      this.#due = null;
      this.#views.get(reply.id)?.update(!this.#waitChanged());
      if (this.marked) this.#showLegend(path(this.chat.conversation));
      this.#follow();
    }, TICK_MS);
  }

  #waited = null;

  #waitChanged() {
    const waiting = this.chat.run?.waiting ?? null;
    const changed = waiting !== this.#waited;
    this.#waited = waiting;
    return changed;
  }

  /** Count down the seconds of a wait, and say when a model is loading. */
  #progress() {
    const { run } = this.chat;
    if (run) this.#views.get(run.reply.id)?.update(true);
  }

  #follow() {
    if (this.#follows) this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#scrolled();
  }

  #scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    this.#follows = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    this.end.hidden = this.#follows;
  }
}

async function copyCode(event) {
  const button = event.target.closest(".copy-code");
  if (!button) return;
  const code = button.closest(".code").querySelector("pre").textContent;
  button.textContent = (await copyText(code)) ? "Copied" : "Not possible";
  setTimeout(() => (button.textContent = "Copy"), 1500);
}
