// The page: makes its parts and ties them together.

import { Announcer } from "./announce.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { answer, askKey, prepare } from "./dialogs.js";
import { byId } from "./dom.js";
import { ofBrowser } from "./kept.js";
import { Models } from "./models.js";
import { Server } from "./server.js";
import { Settings, defaults } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { Status } from "./status.js";
import { Store } from "./store.js";
import { prepareTheme } from "./theme.js";
import { Thread } from "./thread.js";

const MARKED = "marked";
const NOTICE_MS = 8000;

const server = new Server();
const store = new Store();
const keyFor = (wrong) => askKey(server, wrong);
const chat = new Chat(server, store, keyFor, defaults);
const announcer = new Announcer(chat);
const models = new Models(chat, server, keyFor);
const thread = new Thread(chat, server, progress);
const composer = new Composer(chat, () => thread.editLast());
const settings = new Settings(chat, (name) => models.presetOf(name));
const sidebar = new Sidebar(chat, store, notice);
const status = new Status(chat, server, (found) => models.take(found.models ?? []), reload);

/** Say what a reply without text waits for; the server tells a page nothing of its own place in the queue. */
function progress(model) {
  if (models.isLoading(model)) return `Loading ${model}…`;
  return status.waiting ? "Waiting behind other replies, or reading the prompt…" : "Reading the prompt…";
}

let noticeTimer = null;

/** Show a line for a while, and read it to screen readers. */
function notice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = false;
  announcer.say(text);
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => (byId("notice").hidden = true), NOTICE_MS);
}

async function reload() {
  try {
    await models.load();
    thread.show();
  } catch (error) {
    if (error.kind !== "gone") notice(error.message);
  }
}

function mark(on) {
  thread.marked = on;
  byId("mark").setAttribute("aria-pressed", String(on));
  ofBrowser.set(MARKED, on ? "1" : "");
}

const SHORTCUTS = {
  k: () => sidebar.begin(),
  ",": () => settings.open(),
  ".": () => mark(!thread.marked),
  "/": () => byId("shortcuts").open || answer(byId("shortcuts")),
};

addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (sidebar.isDrawer) sidebar.toggle(false);
    else if (chat.run) chat.stop();
    return;
  }
  const shortcut = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && SHORTCUTS[event.key];
  if (!shortcut || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  shortcut();
});

prepare();
prepareTheme();
byId("mark").addEventListener("click", () => mark(!thread.marked));
byId("open-shortcuts").addEventListener("click", () => answer(byId("shortcuts")));
chat.addEventListener("notice", ({ detail }) => notice(detail));
chat.addEventListener("ended", () => status.poll());

await store.open();
if (!store.lasting) notice("This browser keeps no conversations here: they are lost when the page is closed.");
mark(ofBrowser.get(MARKED) === "1");
await sidebar.restore();
document.documentElement.dataset.ready = "";
if (!matchMedia("(pointer: coarse)").matches) composer.focus(); // a phone would show its keyboard
status.poll();
await reload();
