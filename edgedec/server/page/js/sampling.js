// Sampling values that a conversation can set; an empty one leaves the choice to the model's preset.

export const SAMPLING = [
  { name: "temperature", label: "Temperature", off: 0, least: 0, most: 100, hint: "0 always takes the likeliest token" },
  { name: "top_p", label: "Top-p", off: 1, least: 0, most: 1, above: true, hint: "1 is off" },
  { name: "top_k", label: "Top-k", off: 0, least: 0, most: 1e6, whole: true, hint: "0 is off" },
  { name: "min_p", label: "Min-p", off: 0, least: 0, most: 1, hint: "0 is off" },
  { name: "seed", label: "Seed", least: 0, most: Number.MAX_SAFE_INTEGER, whole: true,
    hint: "Empty: another one for each reply" },
  { name: "max_tokens", label: "Max tokens", least: 1, most: 1e7, whole: true,
    hint: "Empty: as the context allows" },
];

/** Return the value of a field's text (null when empty); throws an Error that says which values it takes. */
export function parsed(field, text) {
  const trimmed = text.trim().replace(",", ".");
  if (!trimmed) return null;
  const value = Number(trimmed);
  const inside = value >= field.least && value <= field.most && !(field.above && value === field.least);
  if (inside && (!field.whole || Number.isInteger(value))) return value;
  const kind = field.whole ? "a whole number" : "a number";
  const most = field.most === 1 ? " and at most 1" : "";
  throw new Error(`${field.label} takes ${kind} ${field.above ? "above" : "of at least"} ${field.least}${most}.`);
}

export const anySeed = () => crypto.getRandomValues(new Uint32Array(1))[0];
