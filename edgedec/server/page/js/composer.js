// The field at the foot: Enter sends, Shift-Enter begins a line. Text that was not sent survives a reload.

import { byId } from "./dom.js";
import { ofTab } from "./kept.js";

export class Composer {
  constructor(chat, editLast) {
    this.chat = chat;
    this.field = byId("text");
    this.send = byId("send");
    this.stop = byId("stop");
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.stop.addEventListener("click", () => {
      chat.stop();
      this.field.focus();
    });
    this.field.addEventListener("input", () => this.#changed());
    this.field.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter" && !event.shiftKey) this.#submit();
      else if (event.key === "ArrowUp" && !this.field.value) editLast();
      else return;
      event.preventDefault();
    });
    for (const name of ["open", "change", "ended"]) chat.addEventListener(name, () => this.#show(name === "open"));
    this.#show(true);
  }

  focus() {
    this.field.focus();
  }

  /** The name under which typed text is kept; a conversation without messages has no lasting one of its own. */
  get #key() {
    const { id, tip } = this.chat.conversation;
    return `typed.${tip === null ? "unsent" : id}`;
  }

  #submit() {
    const text = this.field.value.trim();
    if (!text || this.chat.run) return;
    this.field.value = "";
    this.#changed();
    this.chat.send(text);
  }

  #changed() {
    // Browsers without `field-sizing` need the height of the content.
    if (!CSS.supports("field-sizing", "content")) {
      this.field.style.height = "auto";
      this.field.style.height = `${Math.min(this.field.scrollHeight, 240)}px`;
    }
    this.send.disabled = !this.field.value.trim();
    ofTab.set(this.#key, this.field.value);
  }

  #show(another) {
    if (another) {
      this.field.value = ofTab.get(this.#key) ?? "";
      this.#changed();
    }
    const running = this.chat.run !== null;
    const hadFocus = document.activeElement === this.send || document.activeElement === this.stop;
    this.send.hidden = running;
    this.stop.hidden = !running;
    if (hadFocus || document.activeElement === document.body) this.focus();
  }
}
