// The choice of a model. The server loads a model at its first request; the list says which are loaded.

import { byId, h } from "./dom.js";

export class Models {
  #all = [];
  #loading = new Set();

  constructor(chat, server, askKey) {
    this.chat = chat;
    this.server = server;
    this.askKey = askKey;
    this.select = byId("model");
    this.select.addEventListener("change", () => chat.set({ model: this.select.value }));
    chat.addEventListener("open", () => this.#show());
    chat.addEventListener("change", () => this.#show());
  }

  /** Read the list again; asks for the key where the server wants one. Throws ServerError. */
  async load() {
    for (let wrong = this.server.hasKey; ; wrong = true) {
      try {
        this.#all = await this.server.models();
        break;
      } catch (error) {
        if (error.kind !== "key" || !(await this.askKey(wrong))) throw error;
      }
    }
    this.#show();
  }

  /** Take the models' states from the server's status. */
  take(states) {
    const loaded = new Set(states.filter((each) => each.state === "ready").map((each) => each.name));
    this.#loading = new Set(states.filter((each) => each.state === "loading").map((each) => each.name));
    for (const each of this.#all) each.edgedec = { ...each.edgedec, loaded: loaded.has(each.id) };
    this.#show();
  }

  presetOf(name) {
    return this.#all.find((each) => each.id === name)?.edgedec?.preset ?? null;
  }

  isLoading(name) {
    return this.#loading.has(name) || this.#all.some((each) => each.id === name && each.edgedec?.loaded === false);
  }

  #show() {
    const { conversation } = this.chat;
    const usable = this.#all.filter((each) => each.edgedec?.chat !== false);
    if (!conversation.model && usable.length) {
      conversation.model = (usable.find((each) => each.edgedec?.loaded) ?? usable[0]).id;
    }
    const names = new Set(this.#all.map((each) => each.id));
    const options = this.#all.map((each) => {
      const note = each.edgedec?.chat === false ? " (no chat)" : this.#note(each);
      return { value: each.id, text: each.id + note, disabled: each.edgedec?.chat === false };
    });
    if (conversation.model && this.#all.length && !names.has(conversation.model)) {
      options.unshift({ value: conversation.model, text: `${conversation.model} (not on this server)` });
    }
    this.#fill(options);
    this.select.value = conversation.model ?? "";
    this.select.disabled = this.chat.run !== null || options.length === 0;
  }

  #note(each) {
    if (this.#loading.has(each.id)) return " (loading)";
    return each.edgedec?.loaded === false ? " (loads at first use)" : "";
  }

  /** Change only what differs: an open list of the browser would close. */
  #fill(options) {
    const key = JSON.stringify(options);
    if (this.select.dataset.shown === key) return;
    this.select.dataset.shown = key;
    this.select.replaceChildren(
      ...options.map(({ value, text, disabled }) => h("option", { value, disabled: disabled ?? false }, text)),
    );
  }
}
