// A conversation is a tree: an edited message and a retried reply become siblings, and nothing is overwritten.
// `tip` is the last message of the branch that is shown. Pure functions over plain objects.

const TITLE_LENGTH = 60;

/** Return a random name; crypto.randomUUID would need TLS. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(10));
  return `x${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export function create({ model = null, system = "", sampling = {} } = {}) {
  const now = Date.now();
  const sameForAll = { id: newId(), title: "", created: now, updated: now, revision: 0 };
  return { ...sameForAll, model, system, sampling: { ...sampling }, messages: {}, tip: null };
}

/** Add a message below `parent` and show its branch. */
export function add(conversation, role, parent, fields = {}) {
  const message = { id: newId(), parent, role, text: "", created: Date.now(), ...fields };
  conversation.messages[message.id] = message;
  conversation.tip = message.id;
  conversation.updated = message.created;
  if (role === "user" && !conversation.title) conversation.title = titleOf(message.text);
  return message;
}

/** Return the messages from the first to the tip. */
export function path(conversation, tip = conversation.tip) {
  const found = [];
  for (let id = tip; id !== null; id = conversation.messages[id].parent) found.push(conversation.messages[id]);
  return found.reverse();
}

/** Return the messages that answer the same one, in the order in which they were made. */
export function siblings(conversation, message) {
  return Object.values(conversation.messages).filter((other) => other.parent === message.parent);
}

/** Show the branch of a message, down to its newest end. */
export function show(conversation, message) {
  let tip = message;
  for (let below = tip; below; ) {
    tip = below;
    below = Object.values(conversation.messages).findLast((other) => other.parent === tip.id);
  }
  conversation.tip = tip.id;
}

/** Return the messages that a request for a reply sends: those above it, and with `continues` itself. */
export function sent(conversation, reply, continues) {
  const above = path(conversation, continues ? reply.id : reply.parent);
  const messages = above.flatMap(asSent);
  if (!continues) messages.push(...calledIn(reply));
  if (continues && reply.reasoning) messages.at(-1).reasoning_content = reply.reasoning;
  return conversation.system ? [{ role: "system", content: conversation.system }, ...messages] : messages;
}

/** Return a message as requests have it: before the text of a reply, its calls of tools and their results. */
function asSent(message) {
  const called = calledIn(message);
  return !message.text && called.length ? called : [...called, { role: message.role, content: message.text }];
}

function calledIn(message) {
  return (message.rounds ?? []).flatMap(({ text, calls }) => [
    {
      role: "assistant", content: text,
      tool_calls: calls.map((call) => ({ id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } })),
    },
    ...calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: call.result || "the call was stopped" })),
  ]);
}

/** Say whether a reply came to no text at all, so that nothing can follow it. */
export function unanswered(message) {
  return message.role === "assistant" && message.state !== "whole" && !hasAnything(message);
}

/** Say whether a reply has anything to show. */
function hasAnything(message) {
  return Boolean(message.text || message.reasoning || message.rounds?.length);
}

/** Mark replies that a closed page left behind; nobody writes them any more. */
export function settle(conversation) {
  for (const message of Object.values(conversation.messages)) {
    if (message.state !== "running") continue;
    for (const call of (message.rounds ?? []).flatMap((round) => round.calls)) {
      if (call.state === "asked" || call.state === "running") call.state = "refused";
    }
    endAs(message, "left");
  }
  return conversation;
}

/** End a reply before its time, for a reason. */
export function endAs(message, reason, error = null) {
  message.state = hasAnything(message) ? "cut" : "failed";
  message.reason = reason;
  message.error = error;
}

/** Return the first words of a text, for the list. */
export function titleOf(text) {
  const line = text.trim().split("\n", 1)[0].replace(/\s+/g, " ");
  return line.length <= TITLE_LENGTH ? line : `${line.slice(0, TITLE_LENGTH - 1).trimEnd()}…`;
}
