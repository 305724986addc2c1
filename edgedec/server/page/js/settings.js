// System prompt and sampling values of the conversation. Empty fields leave the choice to the model's preset.

import { answer } from "./dialogs.js";
import { byId, h } from "./dom.js";
import { ofBrowser } from "./kept.js";
import { SAMPLING, parsed } from "./sampling.js";

const DEFAULTS = "defaults";

/** Return what a conversation begins with. */
export function defaults() {
  try {
    const { system, sampling } = JSON.parse(ofBrowser.get(DEFAULTS)) ?? {};
    return { system: typeof system === "string" ? system : "", sampling: sampling ?? {} };
  } catch {
    return { system: "", sampling: {} };
  }
}

export class Settings {
  #inputs = new Map();

  constructor(chat, presetOf) {
    this.chat = chat;
    this.presetOf = presetOf;
    this.dialog = byId("settings");
    byId("sampling").append(...SAMPLING.map((field) => this.#row(field)));
    byId("open-settings").addEventListener("click", () => this.open());
    byId("settings-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#apply();
    });
    byId("reset").addEventListener("click", () => {
      for (const input of this.#inputs.values()) input.value = "";
      this.#clear();
    });
  }

  open() {
    if (this.dialog.open) return;
    const { system, sampling, model } = this.chat.conversation;
    const preset = this.presetOf(model);
    byId("system").value = system;
    byId("system").placeholder = preset?.system ?? "None";
    byId("for-all").checked = false;
    for (const { name, off } of SAMPLING) {
      this.#inputs.get(name).value = sampling[name] ?? "";
      this.#inputs.get(name).placeholder = preset ? `${preset[name] ?? off ?? ""}` : "";
    }
    this.#clear();
    answer(this.dialog);
  }

  #row(field) {
    const id = `sampling-${field.name}`;
    const input = h("input", {
      id, type: "text", inputmode: field.whole ? "numeric" : "decimal", autocomplete: "off",
      "aria-describedby": `${id}-hint`,
    });
    this.#inputs.set(field.name, input);
    return h("div", { class: "row" }, h("label", { for: id }, field.label), input,
      h("small", { id: `${id}-hint` }, field.hint));
  }

  #clear() {
    byId("settings-fault").hidden = true;
    for (const input of this.#inputs.values()) input.removeAttribute("aria-invalid");
  }

  #apply() {
    this.#clear();
    const sampling = {};
    for (const field of SAMPLING) {
      const input = this.#inputs.get(field.name);
      try {
        const value = parsed(field, input.value);
        if (value !== null) sampling[field.name] = value;
      } catch (error) {
        byId("settings-fault").textContent = error.message;
        byId("settings-fault").hidden = false;
        input.setAttribute("aria-invalid", "true");
        input.focus();
        return;
      }
    }
    const values = { system: byId("system").value.trim(), sampling };
    if (byId("for-all").checked) ofBrowser.set(DEFAULTS, JSON.stringify(values));
    this.chat.set(values);
    this.dialog.close("yes");
  }
}
