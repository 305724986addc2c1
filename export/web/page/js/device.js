// The model in this browser: fetched when it is asked for, and what computes it.

import { sentence } from "./chunks.js";
import { answer, ask } from "./dialogs.js";
import { byId, h } from "./dom.js";
import { bytes } from "./figures.js";
import { ofBrowser } from "./kept.js";
import { worked } from "./server.js";

const DEVICE = "device";
const DRAFT = "draft";

/** Return what computes replies, in a few words. */
function deviceWords({ device }) {
  if (!device) return "";
  if (device.kind === "cpu") return `${device.title}${device.why ? `: ${device.why}` : ""}`;
  return `${device.title}: ${device.exact ? "same bits as the CPU" : "not the CPU's bits"}`;
}

/** Return which drafters draft, and which do not on a GPU. */
function drafterWords({ drafters, cpuDrafters }) {
  return [drafters.join(", ") || "none", ...cpuDrafters].join("; ");
}

/** Return the facts of the dialog. */
function facts({ device, memory, phase, notice, kv, notes, ...drafting }, about) {
  const found = [];
  if (about) found.push(["Model", `${about.name}, ${bytes(about.total)}`]);
  if (device) found.push(["Computes on", device.kind === "cpu" ? deviceWords({ device }) : device.title]);
  else found.push(["Computes on", phase === "failed" ? "nothing: see the message below" : "chosen when the model is loaded"]);
  if (device) found.push(["Bits", device.exact ? "those of the CPU's kernels, on every device" : `differ: ${device.failed.join(", ")}`]);
  if (device?.kind === "cpu" && !globalThis.crossOriginIsolated) {
    found.push(["Threads", "one: this page's server does not isolate it from other sites"]);
  }
  if (phase === "ready") found.push(["Drafts by", drafterWords(drafting)], ["Kept", notice ?? "in this browser"]);
  if (phase === "ready" && kv === "int8") {
    found.push(["Keys and values", "int8, because memory is short: replies may differ from those of other devices"]);
  }
  for (const line of phase === "ready" ? notes : []) found.push(["Note", line]);
  if (memory) found.push(["Memory", memory.planned ? `${bytes(memory.used)}; planned ${bytes(memory.planned)}` : bytes(memory.used)]);
  return found;
}

/** Return the words, the share that is done and the buttons of the box over the message field. */
function box({ phase, done, total, waiting, fault }, about) {
  switch (phase) {
    case "ready":
      return null;
    case "failed":
      return { words: sentence(fault), fetch: "Try again" };
    case "waiting":
      return { words: "Another tab of this page loads the model; this one follows." };
    case "preparing":
      return { words: "Preparing the model, and measuring this device…", share: null };
    case "fetching": {
      const words = waiting ? "The connection was lost; trying again." : "Loading the model:";
      return { words: `${words} ${bytes(done)} of ${bytes(total)}`, share: total ? done / total : null, cancel: true };
    }
    default:
      if (!about?.missing) return null;
      return { words: `${about.name} takes ${bytes(about.missing)}. It is fetched once, and kept in this browser.`, fetch: "Fetch the model" };
  }
}

/** Return what a screen reader hears of a phase, or null. */
function announced({ phase, fault, device }) {
  if (phase === "ready") return `The model is ready. ${deviceWords({ device })}`;
  if (phase === "failed") return sentence(fault);
  return { fetching: "The model is loading.", waiting: "Another tab loads the model." }[phase] ?? null;
}

class Device {
  #about = null;
  #said = "absent";

  constructor() {
    this.dialog = byId("device");
    worked.addEventListener("state", () => this.#show());
    byId("open-device").addEventListener("click", () => this.#open());
    byId("fetch").addEventListener("click", () => this.#load());
    byId("cancel-fetch").addEventListener("click", () => worked.call("cancel"));
    byId("delete-model").addEventListener("click", () => this.#delete());
    byId("device-choice").addEventListener("change", ({ target }) => this.#choose(target.value));
    byId("draft").addEventListener("change", ({ target }) => ofBrowser.set(DRAFT, target.checked ? null : "off"));
    byId("device-choice").value = this.#choice;
    byId("draft").checked = ofBrowser.get(DRAFT) !== "off";
  }

  get #choice() {
    const kept = ofBrowser.get(DEVICE);
    return ["gpu", "cpu"].includes(kept) ? kept : "auto";
  }

  /** Say what has to be fetched; a model that is there already is loaded at once. */
  async start() {
    this.#show();
    if (await this.#look()) this.#load();
  }

  /** Return whether nothing has to be fetched. */
  async #look() {
    try {
      this.#about = await worked.call("look", { device: this.#choice });
    } catch (error) {
      this.#about = null;
      if (worked.state.phase !== "failed") worked.fail({ message: error.message.replace(/\.$/, ""), hint: "" });
    }
    this.#show();
    return this.#about?.missing === 0;
  }

  #load() {
    worked.call("load").catch(() => this.#look()); // the state says why; a part may be there now
  }

  async #choose(device) {
    ofBrowser.set(DEVICE, device === "auto" ? null : device);
    const loaded = worked.state.phase !== "absent";
    await worked.call("set", { device }).catch(() => {});
    if (!loaded) await this.#look();
  }

  async #delete() {
    this.dialog.close();
    const text = "It is fetched again when it is wanted. Conversations stay.";
    if (!(await ask("Delete the model from this browser?", text, "Delete"))) return;
    await worked.call("remove").catch(() => {});
    await this.#look();
  }

  #open() {
    this.#show();
    answer(this.dialog);
  }

  #show() {
    const { state } = worked;
    document.documentElement.dataset.model = state.phase;
    byId("device-words").textContent = deviceWords(state);
    byId("device-facts").replaceChildren(
      ...facts(state, this.#about).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    );
    this.#showBox(box(state, this.#about), state);
    this.#say(state);
  }

  #say(state) {
    if (state.phase === this.#said) return;
    this.#said = state.phase;
    const words = announced(state);
    if (words) byId("announced").append(h("p", {}, words));
  }

  #showBox(shown, { phase, notice }) {
    byId("fetching").hidden = shown === null;
    byId("fetching").classList.toggle("failed", phase === "failed");
    if (!shown) return;
    const { words, share, fetch, cancel } = shown;
    const bar = byId("fetching-bar");
    if (byId("fetching-words").textContent !== words) byId("fetching-words").textContent = words;
    bar.hidden = share === undefined;
    if (share === null) bar.removeAttribute("value");
    else if (share !== undefined) bar.value = share;
    byId("fetching-notice").textContent = notice ?? "";
    byId("fetching-notice").hidden = !notice;
    byId("fetch").textContent = fetch ?? "";
    byId("fetch").hidden = !fetch;
    byId("cancel-fetch").hidden = !cancel;
  }
}

new Device().start();
