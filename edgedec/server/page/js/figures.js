// Numbers in words.

export function bytes(count) {
  if (count >= 1e9) return `${(count / 1e9).toFixed(count >= 1e10 ? 0 : 1)} GB`;
  return `${Math.round(count / 1e6)} MB`;
}

/** Return a number with three digits at most: 0.042, 1.85, 23.4, 118. */
export function short(number) {
  if (number >= 100) return String(Math.round(number));
  return String(Number(number.toPrecision(number >= 10 ? 3 : 2)));
}

/** Return the figures of a reply, most wanted first; those that the server did not send are left out. */
export function ofReply(figures) {
  const said = [];
  if (figures.tokens) said.push(figures.tokens === 1 ? "1 token" : `${figures.tokens} tokens`);
  if (figures.rate) said.push(`${short(figures.rate)} tokens/s`);
  if (figures.perPass) said.push(`${short(figures.perPass)} tokens/pass`);
  if (figures.joules) said.push(`${short(figures.joules)} J/token${figures.estimated ? " (estimated)" : ""}`);
  return said;
}

/** Return what a pointer shows over the figures of a reply. */
export function details(message) {
  const { prompt, cached, drafted } = message.figures ?? {};
  const said = [];
  if (prompt) said.push(`${prompt} tokens of prompt${cached ? `, ${cached} of them cached` : ""}`);
  if (drafted) said.push(`${drafted} drafted tokens accepted`);
  if (message.seed !== null && message.seed !== undefined) said.push(`seed ${message.seed}`);
  return said.join(" · ");
}

/** Return the figures of a usage object in the names of this page. */
export function ofUsage(usage) {
  const own = usage.edgedec ?? {};
  return {
    prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details?.cached_tokens,
    tokens: usage.completion_tokens,
    drafted: usage.completion_tokens_details?.accepted_prediction_tokens,
    rate: own.tokens_per_second, perPass: own.tokens_per_pass,
    joules: own.joules_per_token, estimated: own.joules_estimated === true,
    memory: own.memory_bytes, budget: own.memory_budget_bytes,
  };
}

/** Return why a reply ended before its own end, or null. */
export function ending(message) {
  const words = {
    length: "The reply reached the limit of its length.",
    context: "The context is full.",
    rounds: "The model called tools without end.",
    loop: "The reply repeated itself and was ended.",
    interrupted: "The server ended the reply.",
    stopped: "You stopped the reply.",
    left: "The page was closed during the reply.",
    lost: "The connection was lost during the reply.",
  };
  return message.state === "whole" ? null : (words[message.reason] ?? null);
}
