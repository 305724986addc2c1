// The list of conversations; on a narrow window a drawer over the rest of the page.

import { ask, askText } from "./dialogs.js";
import { byId, download, h, iconButton } from "./dom.js";
import { read } from "./exchange.js";
import { ofTab } from "./kept.js";

const CURRENT = "open";

export class Sidebar {
  constructor(chat, store, notice) {
    this.chat = chat;
    this.store = store;
    this.notice = notice;
    this.list = byId("conversations");
    this.side = byId("side");
    this.narrow = matchMedia("(max-width: 899px)");
    byId("new").addEventListener("click", () => this.begin());
    byId("menu").addEventListener("click", () => this.toggle(true));
    byId("close-side").addEventListener("click", () => this.toggle(false));
    byId("shade").addEventListener("click", () => this.toggle(false));
    byId("export-all").addEventListener("click", async () => download("edgedec-conversations.json", await chat.exported()));
    byId("import").addEventListener("click", () => byId("import-file").click());
    byId("import-file").addEventListener("change", ({ target }) => this.#import(target));
    this.narrow.addEventListener("change", () => this.toggle(false));
    for (const name of ["open", "change", "list", "ended"]) chat.addEventListener(name, () => this.#soon());
    this.toggle(false);
  }

  get isDrawer() {
    return this.narrow.matches && this.side.classList.contains("open");
  }

  /** Open or close the drawer; while it is open the rest of the page is out of reach, and the other way round. */
  toggle(open) {
    const wasOpen = this.side.classList.contains("open");
    this.side.classList.toggle("open", open);
    byId("shade").hidden = !(open && this.narrow.matches);
    for (const id of ["main", "skip"]) byId(id).inert = open && this.narrow.matches;
    this.side.inert = !open && this.narrow.matches;
    byId("menu").setAttribute("aria-expanded", String(open));
    if (open && this.narrow.matches) byId("new").focus();
    else if (wasOpen && this.narrow.matches) byId("menu").focus();
  }

  begin() {
    this.chat.begin();
    this.toggle(false);
    byId("text").focus();
  }

  /** Open the conversation that this tab had open. */
  async restore() {
    const id = ofTab.get(CURRENT);
    if (id && (await this.store.list()).some((head) => head.id === id)) await this.chat.open(id);
    else this.#soon();
  }

  #due = false;

  async #soon() {
    const { conversation } = this.chat;
    ofTab.set(CURRENT, conversation.id);
    document.title = conversation.title ? `${conversation.title} - EdgeDec` : "EdgeDec";
    byId("title").textContent = conversation.title || "New conversation";
    if (this.#due) return;
    this.#due = true;
    await new Promise((resolve) => setTimeout(resolve, 100));
    this.#due = false;
    this.#show(await this.store.list());
  }

  #show(heads) {
    const focused = document.activeElement?.closest?.("#conversations [data-id]")?.dataset.id;
    this.list.replaceChildren(...heads.map((head) => this.#entry(head)));
    if (focused) this.list.querySelector(`[data-id="${focused}"] button`)?.focus();
    byId("no-conversations").hidden = heads.length > 0;
    byId("export-all").disabled = heads.length === 0;
  }

  #entry(head) {
    const current = head.id === this.chat.conversation.id;
    const open = h("button", {
      type: "button", class: "open", "aria-current": current ? "true" : null, title: head.title,
      onclick: async () => {
        if (!current) await this.chat.open(head.id);
        this.toggle(false);
        if (!matchMedia("(pointer: coarse)").matches) byId("text").focus();
      },
    }, head.title || "Without a title");
    if (this.chat.isRunning(head.id)) open.append(h("span", { class: "busy" }, h("span", { class: "unseen" }, "replying")));
    if (!current) return h("li", { "data-id": head.id }, open);
    return h("li", { class: "current", "data-id": head.id }, open, h("span", { class: "tools" },
      iconButton("edit", "Rename", () => this.#rename(head)),
      iconButton("export", "Export", () => this.#export(head)),
      iconButton("delete", "Delete", () => this.#remove(head))));
  }

  async #rename(head) {
    const title = await askText("Rename the conversation", "Title", head.title);
    if (title) await this.chat.rename(head.id, title.slice(0, 200));
  }

  async #export(head) {
    const name = head.title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 50) || "conversation";
    download(`${name}.json`, await this.chat.exported(head.id));
  }

  async #remove(head) {
    const yes = await ask("Delete the conversation?", `“${head.title}” is removed from this browser for good.`, "Delete");
    if (!yes) return;
    await this.chat.remove(head.id);
    if (!this.isDrawer) byId("text").focus();
    else byId("new").focus();
  }

  async #import(input) {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    try {
      const found = read(await file.text());
      await this.chat.import(found);
      this.notice(found.length === 1 ? "One conversation was imported." : `${found.length} conversations were imported.`);
    } catch (error) {
      this.notice(error.name === "Error" ? error.message : "The browser did not keep the conversations; it may be out of room.");
    }
  }
}
