// Requests and chunks of the HTTP interface, as what the worker takes and says. Pure functions.

import { ofBrowser } from "./kept.js";

const SAMPLING = ["temperature", "top_p", "top_k", "min_p"];

/** Return what the worker computes for the body of a request. */
export function requestOf(body) {
  const messages = body.messages.map(({ role, content }) => ({ role, content }));
  const before = body.messages.at(-1);
  const continues = body.edgedec?.continue ? { text: messages.pop().content, thought: before.reasoning_content ?? "" } : null;
  const sampling = Object.fromEntries(SAMPLING.filter((name) => name in body).map((name) => [name, body[name]]));
  const { seed, max_tokens = 0 } = body;
  return { request: { messages, sampling, seed, max_tokens, draft: ofBrowser.get("draft") !== "off" }, continues };
}

/** Return the chunk of some tokens. Those of the thinking part have no source, as their text is not the reply's. */
export function chunkOf(tokens) {
  const content = tokens.map((token) => token.text).join("");
  const thought = tokens.map((token) => token.thought ?? "").join("");
  const said = tokens.filter((token) => token.text || !token.thought);
  const sources = said.map(({ text: piece, drafter }) => ({ text: piece, source: drafter }));
  const delta = { content, ...(thought ? { reasoning_content: thought } : {}) };
  return { choices: [{ delta, edgedec: { tokens: sources } }], usage: null };
}

/** Return the last chunks of a reply: what was held back, why it ended, and its figures. */
export function endOf(figures, memory) {
  const { finish_reason: reason, pieces = [] } = figures;
  const chunks = pieces.length ? [chunkOf(pieces)] : [];
  chunks.push({ choices: [{ delta: {}, finish_reason: reason }], usage: null });
  if (figures.completion_tokens) chunks.push({ choices: [], usage: usageOf(figures, memory) });
  return chunks;
}

function usageOf(figures, memory) {
  const { completion_tokens: tokens, decode_s: seconds, passes } = figures;
  return {
    prompt_tokens: figures.prompt_tokens,
    completion_tokens: tokens,
    prompt_tokens_details: { cached_tokens: figures.reused_tokens },
    completion_tokens_details: { accepted_prediction_tokens: figures.accepted_tokens },
    edgedec: {
      tokens_per_second: seconds > 0 ? (tokens - 1) / seconds : null,
      tokens_per_pass: passes ? tokens / passes : null,
      memory_bytes: memory?.used, memory_budget_bytes: memory?.planned,
    },
  };
}

/** Return a fault as one line: what is wrong, and what would work. */
export function sentence({ message, hint }) {
  const begins = /^[\w-]+[./]/.test(message) ? message[0] : message[0].toUpperCase(); // names of files stay
  const text = begins + message.slice(1);
  return hint ? `${text} (${hint}).` : `${text}.`;
}
