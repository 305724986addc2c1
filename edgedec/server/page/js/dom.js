// Elements without HTML text: all content goes in as text nodes.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element; properties that begin with "on" are listeners, `null` and `false` are left out. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Return a drawing of the sheet in index.html; it is decoration, so its button needs a name. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const use = document.createElementNS(SVG, "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** Return a button with a drawing, named for screen readers and for the pointer. */
export function iconButton(name, label, onclick) {
  return h("button", { type: "button", class: "quiet", "aria-label": label, title: label, onclick }, icon(name));
}

export const byId = (id) => document.getElementById(id);

/** Put text on the clipboard, and say whether that was possible; without TLS only the older way works. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = h("textarea", { class: "unseen", "aria-hidden": "true" });
    field.value = text;
    const focused = document.activeElement;
    (document.querySelector("dialog[open]") ?? document.body).append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return done;
  }
}

/** Offer a text as a file. */
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
