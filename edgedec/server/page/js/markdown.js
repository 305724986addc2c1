// Replies as HTML: the server renders Markdown without raw HTML, and only known elements are taken over from its answer.
// Links of a reply open elsewhere; pictures become links, so that a reply loads nothing.

import { h } from "./dom.js";

const PLAIN = new Set([
  "p", "ul", "ol", "li", "em", "strong", "s", "del", "blockquote", "br", "hr", "code", "pre", "span", "div", "sup", "sub",
  "table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "kbd",
]);
const BLOCKS = new Set(["p", "ul", "ol", "li", "blockquote", "pre", "div", "table", "tbody", "tr", "td"]);
const HEADING = /^h[1-6]$/;
const LINK = /^(https?:|mailto:)/i;
const CLASS = /^[A-Za-z][\w-]*( [A-Za-z][\w-]*)*$/;

const KEPT = 300;
const rendered = new Map();
const waiting = [];
let busy = false;

/** Return the HTML of a text; throws ServerError. */
export async function htmlOf(server, text, keep = true) {
  if (rendered.has(text)) return rendered.get(text);
  const html = await new Promise((resolve, reject) => {
    waiting.push({ server, text, resolve, reject });
    work();
  });
  if (keep) rendered.set(text, html);
  if (rendered.size > KEPT) rendered.delete(rendered.keys().next().value);
  return html;
}

/** Render what waits one after the other, the latest first: it is nearest to the end, where people read. */
async function work() {
  if (busy) return;
  busy = true;
  for (let job = waiting.pop(); job; job = waiting.pop()) {
    await job.server.markdown(job.text).then(job.resolve, job.reject);
  }
  busy = false;
}

/** Return the known elements of HTML as a fragment. Columns are aligned by classes: the page's policy allows no styles. */
export function fragmentOf(html) {
  const fragment = document.createDocumentFragment();
  const classed = html.replaceAll(/ style="text-align:(left|center|right)"/g, ' class="align-$1"');
  fragment.append(...copies(new DOMParser().parseFromString(classed, "text/html").body));
  return fragment;
}

/** Replace the blocks of `target` that differ, so that a selection in the others survives. */
export function place(target, fragment) {
  const blocks = [...fragment.children];
  blocks.forEach((block, index) => {
    const old = target.children[index];
    if (!old) target.append(block);
    else if (!old.isEqualNode(block)) old.replaceWith(block);
  });
  while (target.children.length > blocks.length) target.lastElementChild.remove();
  for (const node of [...target.childNodes]) if (node.nodeType === Node.TEXT_NODE) node.remove();
}

/** Return the block that text after the rendered one continues, as far as can be told. */
export function endOf(target) {
  let end = target;
  const isBlock = (element) => element && (BLOCKS.has(element.localName) || end.localName === "pre");
  while (isBlock(end.lastElementChild)) end = end.lastElementChild;
  return end;
}

function copies(parent) {
  return [...parent.childNodes].flatMap((node) => {
    if (node.nodeType === Node.TEXT_NODE) return [node.data];
    return node.nodeType === Node.ELEMENT_NODE ? copyOf(node) : [];
  });
}

/** Return what stands for an element: itself with known attributes, or its content. */
function copyOf(element) {
  const tag = element.localName;
  if (["script", "style", "template", "iframe", "object", "svg", "math"].includes(tag)) return [];
  if (tag === "img") return [linkTo(element.getAttribute("src"), [element.alt || "picture"])];
  const content = copies(element);
  if (tag === "a") return [linkTo(element.getAttribute("href"), content)];
  if (tag === "pre") return [codeBlock(element, content)];
  if (tag === "table") return [h("div", { class: "wide", tabindex: "0" }, h("table", {}, ...content))];
  // The page's own headings are the first two levels.
  if (HEADING.test(tag)) return [h(`h${Math.min(6, Number(tag[1]) + 2)}`, { class: `level-${tag[1]}` }, ...content)];
  if (!PLAIN.has(tag)) return content;
  const start = tag === "ol" ? element.getAttribute("start") : null;
  return [h(tag, { class: classesOf(element), start: /^\d{1,9}$/.test(start ?? "") ? start : null }, ...content)];
}

function classesOf(element) {
  const given = element.getAttribute("class") ?? "";
  return CLASS.test(given) ? given : null;
}

function linkTo(address, content) {
  if (!LINK.test(address ?? "")) return h("span", {}, ...content);
  return h("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, ...content);
}

/** Return a block of code under a line with its language and a button that copies it. */
function codeBlock(element, content) {
  const classes = `${element.className} ${element.querySelector("code")?.className ?? ""}`;
  const language = /language-([\w+#.-]+)/.exec(classes)?.[1] ?? "";
  const copy = h("button", { type: "button", class: "quiet copy-code" }, "Copy");
  return h("div", { class: "code" },
    h("div", { class: "code-head" }, h("span", {}, language || "text"), copy),
    h("pre", { tabindex: "0", class: "highlight" }, ...content));
}
