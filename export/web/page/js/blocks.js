// Markdown as HTML, for replies: paragraphs, headings, lists, quotes, code, tables. HTML within the text stays text, and
// what is made here goes through the page's list of known elements (markdown.js) before it is shown.

import { escaped, inline } from "./inline.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const DIVIDER = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const DEEPEST = 8;

/** Return the HTML of a text. */
export function html(text) {
  return blocks(text.replace(/\r\n?/g, "\n").replaceAll("\t", "    ").split("\n"), 0);
}

function blocks(lines, depth) {
  const made = [];
  for (let at = 0; at < lines.length; ) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [block, taken] = blockAt(lines, at, depth);
    made.push(block);
    at += taken;
  }
  return made.join("\n");
}

/** Return the block that begins at a line, and how many lines it has. */
function blockAt(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line)) return fenced(lines, at);
  if (HEADING.test(line)) return [heading(line), 1];
  if (RULE.test(line)) return ["<hr>", 1];
  if (depth < DEEPEST && QUOTE.test(line)) return quote(lines, at, depth);
  if (depth < DEEPEST && ITEM.test(line)) return list(lines, at, depth);
  if (/^ {4}/.test(line)) return indented(lines, at);
  if (line.includes("|") && DIVIDER.test(lines[at + 1] ?? "") && sameColumns(lines, at)) return table(lines, at);
  return paragraph(lines, at);
}

function fenced(lines, at) {
  const [, mark, words] = FENCE.exec(lines[at]);
  const indent = /^ */.exec(lines[at])[0].length;
  const end = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}\\s*$`);
  let next = at + 1;
  while (next < lines.length && !end.test(lines[next])) next += 1;
  const text = lines.slice(at + 1, next).map((line) => line.replace(new RegExp(`^ {0,${indent}}`), ""));
  const language = /^[\w+#.-]+/.exec(words)?.[0];
  return [codeOf(text, language), next - at + 1];
}

function indented(lines, at) {
  let next = at;
  while (next < lines.length && (/^ {4}/.test(lines[next]) || !lines[next].trim())) next += 1;
  while (!lines[next - 1].trim()) next -= 1;
  return [codeOf(lines.slice(at, next).map((line) => line.slice(4))), next - at];
}

function codeOf(lines, language) {
  const name = language ? ` class="language-${escaped(language)}"` : "";
  return `<pre><code${name}>${escaped(lines.map((line) => `${line}\n`).join(""))}</code></pre>`;
}

function heading(line) {
  const [, marks, text = ""] = HEADING.exec(line);
  return `<h${marks.length}>${inline(text)}</h${marks.length}>`;
}

function quote(lines, at, depth) {
  let next = at;
  while (next < lines.length && lines[next].trim() && (QUOTE.test(lines[next]) || !startsBlock(lines[next]))) next += 1;
  const inner = lines.slice(at, next).map((line) => line.replace(QUOTE, ""));
  return [`<blockquote>${blocks(inner, depth + 1)}</blockquote>`, next - at];
}

/** An item's lines are those after its mark, and further ones that are indented as far, or go on with its text. */
function list(lines, at, depth) {
  const kind = kindOf(lines[at]);
  const items = [];
  let next = at;
  let loose = false;
  while (next < lines.length && ITEM.test(lines[next]) && kindOf(lines[next]) === kind && !RULE.test(lines[next])) {
    const [inner, taken] = item(lines, next);
    loose ||= inner.some((line, index) => !line.trim() && inner.slice(index + 1).some((after) => /^\S/.test(after)));
    items.push(inner);
    next += taken;
    const gap = next;
    while (next < lines.length && !lines[next].trim()) next += 1;
    const goesOn = next < lines.length && ITEM.test(lines[next]) && kindOf(lines[next]) === kind;
    loose ||= goesOn && next > gap;
    if (!goesOn) next = gap;
  }
  const start = kind === "-" ? NaN : Number.parseInt(lines[at].trim(), 10);
  const tag = Number.isNaN(start) ? "ul" : "ol";
  const first = tag === "ol" && start !== 1 ? ` start="${start}"` : "";
  const written = items.map((inner) => `<li>${tightly(blocks(inner, depth + 1), loose)}</li>`);
  return [`<${tag}${first}>${written.join("\n")}</${tag}>`, next - at];
}

const kindOf = (line) => (/\d/.test(ITEM.exec(line)[2]) ? ITEM.exec(line)[2].at(-1) : "-");

/** In a list without empty lines between items their text is no paragraph. */
const tightly = (made, loose) => (loose ? made : made.replace(/^<p>([^]*?)<\/p>/, "$1"));

function item(lines, at) {
  const [mark] = ITEM.exec(lines[at]);
  const indent = Math.min(mark.length, mark.trimEnd().length + 4);
  const inner = [lines[at].slice(indent)];
  let next = at + 1;
  for (; next < lines.length; next++) {
    const line = lines[next];
    const inside = line.slice(0, indent).trim() === "" && line.length > indent;
    if (!line.trim()) {
      const after = lines.slice(next).find((each) => each.trim());
      if (!after || after.slice(0, indent).trim()) break;
      inner.push("");
    } else if (inside) inner.push(line.slice(indent));
    else if (ITEM.test(line) || startsBlock(line) || !inner.at(-1).trim()) break;
    else inner.push(line.trimStart());
  }
  return [inner, next - at];
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

const sameColumns = (lines, at) => cells(lines[at]).length === cells(lines[at + 1]).length;

function table(lines, at) {
  const sides = cells(lines[at + 1]).map((cell) => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    const side = left && right ? "center" : right ? "right" : left ? "left" : null;
    return side ? ` class="align-${side}"` : "";
  });
  const row = (line, tag) =>
    `<tr>${sides.map((side, index) => `<${tag}${side}>${inline(cells(line)[index] ?? "")}</${tag}>`).join("")}</tr>`;
  let next = at + 2;
  while (next < lines.length && lines[next].trim() && !startsBlock(lines[next])) next += 1;
  const body = lines.slice(at + 2, next).map((line) => row(line, "td"));
  const rows = body.length ? `<tbody>${body.join("")}</tbody>` : "";
  return [`<table><thead>${row(lines[at], "th")}</thead>${rows}</table>`, next - at];
}

function paragraph(lines, at) {
  let next = at + 1;
  while (next < lines.length && lines[next].trim() && !startsBlock(lines[next])) next += 1;
  const text = lines.slice(at, next).map((line) => line.trimStart()).join("\n").trimEnd();
  return [`<p>${inline(text)}</p>`, next - at];
}

/** Say whether a line ends the paragraph before it. */
function startsBlock(line) {
  const [, , mark, gap] = ITEM.exec(line) ?? [];
  const interrupts = mark && gap && (!/\d/.test(mark) || /^1[.)]$/.test(mark));
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || Boolean(interrupts);
}
