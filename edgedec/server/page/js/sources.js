// Which drafter proposed each token: a tint and a pattern of underlining for each, so that colour is not needed.

import { h } from "./dom.js";

const KINDS = [
  { kind: "lookup", style: 1 },
  { kind: "recycling", style: 2 },
  { kind: "exit", style: 3 },
  { kind: "head", style: 4 },
  { kind: "skip", style: 5 },
];
const OTHER = 6;

const styleOf = (source) =>
  KINDS.find(({ kind }) => source === kind || source.startsWith(`${kind}-`))?.style ?? OTHER;

/** Return the tokens of a reply as marked pieces, those after `from`. */
export function pieces(tokens, from = 0) {
  return tokens.slice(from).map(([text, source]) =>
    source === null
      ? document.createTextNode(text)
      : h("span", { class: `drafted source-${styleOf(source)}`, title: `drafted by ${source}` }, text),
  );
}

/** Return the legend of some replies: each drafter with its share of the tokens. */
export function legend(replies) {
  const counts = new Map();
  let all = 0;
  for (const [, source] of replies.flatMap((reply) => reply.tokens ?? [])) {
    all += 1;
    if (source !== null) counts.set(source, (counts.get(source) ?? 0) + 1);
  }
  const drafted = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const share = (count) => ` ${Math.round((100 * count) / all)} %`;
  const entries = [...counts].sort((one, other) => other[1] - one[1]).map(([source, count]) =>
    h("li", {}, h("span", { class: `drafted source-${styleOf(source)}` }, source), share(count)),
  );
  if (all) entries.push(h("li", {}, h("span", {}, "the model itself"), share(all - drafted)));
  return entries.length ? entries : [h("li", {}, "no tokens in this conversation yet")];
}
