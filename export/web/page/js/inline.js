// The inside of a line of Markdown as HTML: code, emphasis, links, escapes. All else is text, and stays text.

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const MARKS = { "***": ["<em><strong>", "</strong></em>"], "**": ["<strong>", "</strong>"], "*": ["<em>", "</em>"],
  "__": ["<strong>", "</strong>"], "_": ["<em>", "</em>"], "~~": ["<s>", "</s>"] };
const DEEPEST = 8;

export const escaped = (text) => text.replace(/[&<>"]/g, (character) => ESCAPES[character]);

/** Return text as HTML. */
export function inline(text, depth = 0) {
  let made = "";
  for (let at = 0; at < text.length; ) {
    const [html, size] = (depth < DEEPEST && special(text, at, depth)) || [escaped(text[at]), 1];
    made += html;
    at += size;
  }
  return made;
}

/** Return the HTML of a construct that begins here and how many characters it has, or null. */
function special(text, at, depth) {
  switch (text[at]) {
    case "\\":
      if (text[at + 1] === "\n") return ["<br>\n", 2];
      return PUNCTUATION.test(text[at + 1] ?? "") ? [escaped(text[at + 1]), 2] : null;
    case "`":
      return code(text, at);
    case "*": case "_": case "~":
      return emphasis(text, at, depth);
    case "[":
      return link(text, at, depth);
    case "!":
      return text[at + 1] === "[" ? picture(text, at, depth) : null;
    case "<":
      return address(text, at);
    case " ":
      return hardBreak(text, at);
    default:
      return null;
  }
}

function code(text, at) {
  const [mark] = /^`+/.exec(text.slice(at));
  const rest = text.slice(at + mark.length);
  const end = new RegExp(`(?<!\`)${mark}(?!\`)`).exec(rest)?.index ?? -1;
  if (end < 0) return [mark, mark.length];
  const inside = rest.slice(0, end).replaceAll("\n", " ");
  const trimmed = /^ .*[^ ].* $/.test(inside) ? inside.slice(1, -1) : inside;
  return [`<code>${escaped(trimmed)}</code>`, 2 * mark.length + end];
}

/** A run of marks opens before text and closes after it; an underscore not within a word. */
function emphasis(text, at, depth) {
  const [run] = /^(\*+|_+|~+)/.exec(text.slice(at));
  const ends = MARKS[run];
  const opens = /\S/.test(text[at + run.length] ?? "") && !(run[0] === "_" && /\w/.test(text[at - 1] ?? ""));
  if (!ends || !opens) return [escaped(run), run.length];
  const from = at + run.length;
  const close = closing(text, from, run);
  if (close < 0) return [escaped(run), run.length];
  return [`${ends[0]}${inline(text.slice(from, close), depth + 1)}${ends[1]}`, close + run.length - at];
}

function closing(text, from, run) {
  for (let at = from; at < text.length; ) {
    if (text[at] === "\\") at += 2;
    else if (text[at] === "`") at += code(text, at)[1];
    else if (text[at] !== run[0]) at += 1;
    else {
      let size = 1;
      while (text[at + size] === run[0]) size += 1;
      const closes = size === run.length && /\S/.test(text[at - 1]) && !(run[0] === "_" && /\w/.test(text[at + size] ?? ""));
      if (closes && at > from) return at;
      at += size;
    }
  }
  return -1;
}

/** Return [text within the brackets at `at`, address, characters], or null. */
function bracketed(text, at) {
  let depth = 0;
  for (let end = at; end < text.length; end++) {
    if (text[end] === "\\") end += 1;
    else if (text[end] === "[") depth += 1;
    else if (text[end] === "]" && --depth === 0) {
      const found = /^\(\s*<?((?:[^\s()<>]|\([^\s()<>]*\))*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(text.slice(end + 1));
      return found && [text.slice(at + 1, end), found[1], end + 1 - at + found[0].length];
    }
  }
  return null;
}

function link(text, at, depth) {
  const found = bracketed(text, at);
  return found && [`<a href="${escaped(found[1])}">${inline(found[0], depth + 1)}</a>`, found[2]];
}

function picture(text, at) {
  const found = bracketed(text, at + 1);
  return found && [`<img src="${escaped(found[1])}" alt="${escaped(found[0])}">`, found[2] + 1];
}

function address(text, at) {
  const found = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/.exec(text.slice(at));
  return found && [`<a href="${escaped(found[1])}">${escaped(found[1])}</a>`, found[0].length];
}

function hardBreak(text, at) {
  const found = /^ {2,}\n/.exec(text.slice(at, at + 80));
  return found && ["<br>\n", found[0].length];
}
