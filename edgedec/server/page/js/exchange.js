// Conversations as a JSON file. What is read is taken field by field, so that a hostile file adds nothing else.

import { newId } from "./conversation.js";
import { SAMPLING } from "./sampling.js";

const FORMAT = "edgedec-conversations";
const MOST_BYTES = 64 * 1024 * 1024;

export function written(conversations) {
  return JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1);
}

/** Return the conversations of a file; throws an Error with one plain line. */
export function read(text) {
  if (text.length > MOST_BYTES) throw new Error("The file is larger than 64 MB.");
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Error("The file is not JSON.");
  }
  if (data?.format !== FORMAT) throw new Error("The file was not exported from this page.");
  if (data.version !== 1) throw new Error(`The file has version ${data.version}; this page reads version 1.`);
  if (!Array.isArray(data.conversations)) throw new Error("The file has no list of conversations.");
  return data.conversations.map((one, index) => {
    const found = conversation(one);
    if (!found) throw new Error(`Conversation ${index + 1} of the file is damaged. Nothing was imported.`);
    return found;
  });
}

/** Return a conversation with names of its own, or null for a damaged one. */
function conversation(given) {
  if (!isObject(given) || !isObject(given.messages)) return null;
  const names = new Map(Object.keys(given.messages).map((id) => [id, newId()]));
  const messages = {};
  for (const [id, each] of Object.entries(given.messages)) {
    const found = message(each, names);
    if (!found) return null;
    messages[names.get(id)] = { id: names.get(id), ...found };
  }
  const tip = given.tip === null ? null : names.get(given.tip);
  if (tip === undefined || !isTree(messages)) return null;
  return {
    id: newId(), title: text(given.title, 200), created: time(given.created), updated: time(given.updated),
    revision: 0, model: given.model === null ? null : text(given.model, 200), system: text(given.system),
    sampling: numbers(given.sampling, SAMPLING.map((field) => field.name)), messages, tip,
  };
}

const FIGURES = [
  "prompt", "cached", "tokens", "drafted", "rate", "perPass", "joules", "memory", "budget",
];

function message(given, names) {
  if (!isObject(given) || !["user", "assistant"].includes(given.role) || typeof given.text !== "string") return null;
  const parent = given.parent === null ? null : names.get(given.parent);
  if (parent === undefined) return null;
  const base = { parent, role: given.role, text: given.text, created: time(given.created) };
  if (given.role === "user") return base;
  return {
    ...base,
    reasoning: text(given.reasoning), model: text(given.model, 200), seed: number(given.seed),
    state: ["whole", "cut", "failed"].includes(given.state) ? given.state : "cut",
    reason: text(given.reason, 40), error: null, tokens: tokens(given.tokens),
    rounds: rounds(given.rounds),
    figures: { ...numbers(given.figures, FIGURES), estimated: given.figures?.estimated === true },
  };
}

/** Say whether every message leads to a first one. */
function isTree(messages) {
  return Object.values(messages).every((message) => {
    let steps = 0;
    for (let id = message.parent; id !== null; id = messages[id].parent) {
      if (++steps > Object.keys(messages).length) return false;
    }
    return true;
  });
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value, most = Infinity) => (typeof value === "string" ? value.slice(0, most) : "");
const number = (value) => (Number.isFinite(value) ? value : null);
const time = (value) => (Number.isFinite(value) && Math.abs(value) < 8.64e15 ? value : Date.now());

function numbers(given, names) {
  const known = isObject(given) ? names.filter((name) => Number.isFinite(given[name])) : [];
  return Object.fromEntries(known.map((name) => [name, given[name]]));
}

function rounds(given) {
  const call = (one) => ({
    id: text(one?.id, 40), name: text(one?.name, 200), arguments: text(one?.arguments), server: text(one?.server, 200),
    state: ["done", "failed", "refused"].includes(one?.state) ? one.state : "refused", result: text(one?.result),
  });
  const round = (one) => ({ text: text(one?.text), calls: Array.isArray(one?.calls) ? one.calls.map(call) : [] });
  return Array.isArray(given) ? given.map(round).filter((one) => one.calls.length) : [];
}

function tokens(given) {
  const pair = (one) =>
    Array.isArray(one) && typeof one[0] === "string" && (one[1] === null || typeof one[1] === "string");
  return Array.isArray(given) ? given.filter(pair).map(([piece, source]) => [piece, source]) : [];
}
