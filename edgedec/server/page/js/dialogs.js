// Questions in dialogs. The browser keeps the focus inside, closes them on Escape and gives the focus back.

import { byId } from "./dom.js";

/** Open a dialog and return what its form was closed with: "" when it was left. */
export function answer(dialog) {
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) =>
    dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true }),
  );
}

/** Ask yes or no. */
export async function ask(heading, text, yes) {
  const dialog = byId("ask");
  byId("ask-heading").textContent = heading;
  byId("ask-text").textContent = text;
  byId("ask-yes").textContent = yes;
  return (await answer(dialog)) === "yes";
}

/** Ask for a line of text; returns "" when the dialog was left. */
export async function askText(heading, label, value) {
  const dialog = byId("ask-for-text");
  const field = byId("ask-field");
  byId("ask-for-text-heading").textContent = heading;
  byId("ask-label").textContent = label;
  field.value = value;
  const answered = answer(dialog);
  field.select();
  return (await answered) === "yes" ? field.value.trim() : "";
}

let asking = null;

/** Ask for the server's key, once for all requests that wait for it; returns whether there is one to try. */
export function askKey(server, wrong) {
  asking ??= (async () => {
    byId("key-wrong").hidden = !wrong;
    byId("key-field").value = "";
    const given = (await answer(byId("key"))) === "yes" && byId("key-field").value.trim();
    if (given) server.setKey(given);
    return Boolean(given);
  })().finally(() => (asking = null));
  return asking;
}

/** Make every button with the class "leave" close its dialog without an answer. */
export function prepare() {
  for (const button of document.querySelectorAll("dialog .leave")) {
    button.addEventListener("click", () => button.closest("dialog").close(""));
  }
}
