// The field at the foot: Enter sends, Shift-Enter begins a line. Text that was not sent survives a reload.

import { byId } from "./dom.js";

const typed = (id) => `edgedec.typed.${id}`;

export class Composer {
  #key = null;

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
    if (this.field.value) sessionStorage.setItem(this.#key, this.field.value);
    else sessionStorage.removeItem(this.#key);
  }

  #show(another) {
    if (another) {
      // A conversation without messages has no lasting name yet.
      const { conversation } = this.chat;
      this.#key = typed(conversation.tip === null ? "unsent" : conversation.id);
      this.field.value = sessionStorage.getItem(this.#key) ?? "";
      this.#changed();
    }
    const running = this.chat.run !== null;
    const hadFocus = document.activeElement === this.send || document.activeElement === this.stop;
    this.send.hidden = running;
    this.stop.hidden = !running;
    if (hadFocus || document.activeElement === document.body) this.focus();
  }
}
