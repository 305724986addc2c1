// One message on the page: what was asked, or a reply with its reasoning, figures and buttons.

import { siblings, unanswered } from "./conversation.js";
import { copyText, h, icon } from "./dom.js";
import { details, ending, ofReply } from "./figures.js";
import { endOf, fragmentOf, htmlOf, place } from "./markdown.js";
import { pieces } from "./sources.js";
import { callsOf, stateOfCalls } from "./tools.js";

const RENDER_EVERY_MS = 250;
const SHARE_OF_RENDERING = 0.05; // of the time, since it may take the processor from the model

/** Return a view: its element, and `update` to call after each change of the message. */
export function messageView(chat, server, message, options) {
  return message.role === "user" ? new Question(chat, message) : new Reply(chat, server, message, options);
}

function action(name, label, onclick) {
  return h("button", { type: "button", class: "quiet action", onclick }, icon(name), label);
}

/** Return buttons that show the other branches, or null where there is one. */
function branches(chat, message) {
  const all = siblings(chat.conversation, message);
  if (all.length < 2) return null;
  const at = all.indexOf(message);
  const step = (by, name, label) =>
    h("button", {
      type: "button", class: "quiet", "aria-label": label, title: label,
      disabled: !all[at + by] || chat.run !== null, onclick: () => chat.show(all[at + by]),
    }, icon(name));
  return h("span", { class: "branches" },
    step(-1, "left", "Previous version"), `${at + 1} of ${all.length}`, step(1, "right", "Next version"));
}

class Question {
  constructor(chat, message) {
    this.chat = chat;
    this.message = message;
    this.text = h("div", { class: "asked" }, message.text);
    this.foot = h("div", { class: "actions" });
    this.element = h("article", { class: "message question" }, h("h2", { class: "unseen" }, "You"), this.text, this.foot);
    this.update();
  }

  update() {
    const edit = action("edit", "Edit", () => this.edit());
    edit.disabled = this.chat.run !== null;
    this.foot.replaceChildren(...[branches(this.chat, this.message), copyAction(this.message.text), edit].filter(Boolean));
  }

  /** Put a field in place of the text; what is sent becomes another version, and this one stays. */
  edit() {
    const field = h("textarea", { "aria-label": "Your message", rows: "3" });
    const close = () => {
      form.replaceWith(this.text);
      this.foot.hidden = false;
      this.foot.querySelector(".action:last-child")?.focus();
    };
    const form = h("form", { class: "editing" }, field,
      h("div", { class: "actions" },
        h("button", { type: "button", class: "quiet", onclick: close }, "Cancel"),
        h("button", { class: "main" }, "Send")));
    field.value = this.message.text;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = field.value.trim();
      if (!text || this.chat.run) return;
      close();
      this.chat.edit(this.message, text);
      document.getElementById("text").focus();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
      else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target === field) form.requestSubmit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.text.replaceWith(form);
    this.foot.hidden = true;
    field.focus();
  }
}

function copyAction(text) {
  const button = action("copy", "Copy", async () => {
    button.lastChild.data = (await copyText(text)) ? "Copied" : "Not possible";
    setTimeout(() => (button.lastChild.data = "Copy"), 1500);
  });
  return button;
}

class Reply {
  #rendered = ""; // the text that is shown as Markdown
  #tail = document.createTextNode("");
  #rendering = false;
  #renderedAt = 0;
  #pause = RENDER_EVERY_MS;
  #shownTokens = 0;
  #shownCalls = " false";

  constructor(chat, server, message, options) {
    Object.assign(this, { chat, server, message, options });
    this.thought = h("div", { class: "thought" });
    this.summary = h("summary", {});
    this.reasoning = h("details", { class: "reasoning" }, this.summary, this.thought);
    this.calls = h("div", { class: "calls" });
    this.body = h("div", { class: "body" });
    this.tokens = h("div", { class: "tokens" });
    this.note = h("div", { class: "note" });
    this.figures = h("span", { class: "figures" });
    this.buttons = h("span", { class: "buttons" });
    this.name = h("h2", { class: "unseen" });
    this.element = h("article", { class: "message reply" }, this.name, this.calls, this.reasoning, this.body, this.tokens, this.note,
      h("div", { class: "actions" }, this.figures, this.buttons));
    this.update();
  }

  get #running() {
    return this.message.state === "running";
  }

  /** Show the message as it is now; `text` says that only its text has grown. */
  update(textOnly = false) {
    const { message } = this;
    this.element.classList.toggle("running", this.#running);
    this.element.setAttribute("aria-busy", String(this.#running));
    this.name.textContent = `Reply${message.model ? ` of ${message.model}` : ""}`;
    this.reasoning.hidden = !message.reasoning;
    this.thought.textContent = message.reasoning ?? "";
    this.summary.textContent = this.#running && !message.text ? "Reasoning…" : "Reasoning";
    this.#showCalls();
    this.#showText();
    this.#showNote();
    this.figures.textContent = ofReply(message.figures ?? {}).join(" · ");
    this.figures.title = details(message);
    if (!textOnly) this.#showButtons();
  }

  #showCalls() {
    const run = this.chat.run?.reply === this.message ? this.chat.run : null;
    const state = `${stateOfCalls(this.message)} ${Boolean(run?.decide)}`;
    if (state === this.#shownCalls) return;
    this.#shownCalls = state;
    this.calls.replaceChildren(...callsOf(this.message, run?.decide ?? null));
    this.options.grown();
  }

  #showText() {
    const asTokens = this.options.marked && this.message.tokens?.length > 0;
    this.tokens.hidden = !asTokens;
    this.body.hidden = asTokens;
    if (asTokens) {
      if (this.#shownTokens > this.message.tokens.length) this.#shownTokens = 0;
      if (!this.#shownTokens) this.tokens.replaceChildren();
      this.tokens.append(...pieces(this.message.tokens, this.#shownTokens));
      this.#shownTokens = this.message.tokens.length;
    } else this.#render();
  }

  /** Show the text at once, then as Markdown; while it grows, as often as rendering is cheap. */
  async #render() {
    const { text } = this.message;
    if (text === this.#rendered) return;
    this.#showPlain(text);
    const early = this.#running && Date.now() - this.#renderedAt < this.#pause;
    if (!text || early || this.#rendering) return;
    this.#rendering = true;
    const before = performance.now();
    try {
      const fragment = fragmentOf(await htmlOf(this.server, text, !this.#running));
      // Markdown may be without visible text, such as a definition of a link.
      if (!fragment.textContent.trim()) fragment.replaceChildren(h("p", { class: "plain" }, text));
      place(this.body, fragment);
      this.#rendered = text;
    } catch {
      this.#rendered = "";
      this.#showPlain(this.message.text);
      if (!this.#running) return;
    } finally {
      this.#renderedAt = Date.now();
      this.#pause = Math.max(RENDER_EVERY_MS, (performance.now() - before) / SHARE_OF_RENDERING);
      this.#rendering = false;
      this.options.grown();
    }
    if (!this.#running && this.#rendered !== this.message.text) this.#render();
  }

  /** Show what is not rendered yet as it is, after the rendered part. */
  #showPlain(text) {
    if (!this.#rendered || !text.startsWith(this.#rendered)) {
      this.#rendered = "";
      this.body.replaceChildren(h("p", { class: "plain" }, text));
    } else {
      const end = this.#tail.parentElement?.isConnected ? this.#tail.parentElement : endOf(this.body);
      const blanks = end.closest("pre") ? "" : /\s*$/.exec(this.#rendered)[0]; // which Markdown drops
      this.#tail.data = blanks + text.slice(this.#rendered.length);
      if (this.#tail.parentElement !== end) end.append(this.#tail);
    }
  }

  #showNote() {
    const { message, chat } = this;
    const run = chat.run?.reply === message ? chat.run : null;
    const shown = run ? this.#progress(run) : (message.error ?? ending(message));
    const kind = `note${message.error && !run ? " error" : ""}${run ? " progress" : ""}`;
    if (this.note.className !== kind) this.note.className = kind;
    if (this.note.textContent !== (shown ?? "")) this.note.textContent = shown ?? "";
    this.note.hidden = !shown;
  }

  /** Say what a reply without text waits for. */
  #progress(run) {
    if (run.waiting) {
      const seconds = Math.max(0, Math.ceil((run.waiting.until - Date.now()) / 1000));
      return `${run.waiting.message} Next attempt in ${seconds} s.`;
    }
    if (this.message.text || this.message.reasoning || run.decide) return null;
    if (this.message.rounds?.at(-1)?.calls.some((call) => call.state === "running")) return null;
    return this.options.progress(this.message.model);
  }

  #showButtons() {
    const { message, chat } = this;
    if (this.#running) {
      const wait = chat.run?.waiting;
      this.buttons.replaceChildren(...(wait ? [action("retry", "Try now", () => chat.run?.tryNow())] : []));
      return;
    }
    const busy = chat.run !== null;
    // Later messages answer a reply as it stands, so only the last one grows.
    const canGrow = message.state === "cut" && message.reason !== "context" && message.id === chat.conversation.tip;
    const more = canGrow ? action("more", "More", () => chat.more(message)) : null;
    const retry = action("retry", unanswered(message) ? "Try again" : "Retry", () => chat.retry(message));
    const copy = message.text ? copyAction(message.text) : null;
    for (const button of [more, retry]) if (button) button.disabled = busy;
    this.buttons.replaceChildren(...[branches(chat, message), more, copy, retry].filter(Boolean));
  }
}
