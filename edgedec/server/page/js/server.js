// The server's HTTP interface. Every fault becomes one ServerError with a kind that the page acts on.

import { ofTab } from "./kept.js";

export class ServerError extends Error {
  /** kinds: gone (no answer), key (401), busy (429, 503), refused (the request is wrong), broken (the server is). */
  constructor(kind, message, retryAfter = null) {
    super(message);
    this.kind = kind;
    this.retryAfter = retryAfter;
  }
}

export class Server {
  #key = ofTab.get("key");

  get hasKey() {
    return this.#key !== null;
  }

  setKey(key) {
    this.#key = key;
    ofTab.set("key", key);
  }

  models() {
    return this.#json("v1/models").then((answer) => answer.data);
  }

  tools() {
    return this.#json("edgedec/tools");
  }

  /** Call a tool with the token that came with the tools; the answer has its text, and whether it failed. */
  call(token, body, signal) {
    return this.#json("edgedec/tools/call", body, { "X-EdgeDec-Page": token }, signal);
  }

  status() {
    return this.#json("edgedec/status");
  }

  markdown(text) {
    return this.#json("edgedec/markdown", { text }).then((answer) => answer.html);
  }

  /** Yield the chunks of a streamed reply. */
  async *reply(body, signal) {
    const response = await this.#fetch("v1/chat/completions", body, signal);
    try {
      for await (const data of serverSentEvents(response.body)) {
        if (data === "[DONE]") return;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new ServerError("broken", plain(chunk.error.message));
        yield chunk;
      }
    } catch (error) {
      if (error instanceof ServerError || error.name === "AbortError") throw error;
      throw new ServerError("gone", "The connection was lost during the reply.");
    }
  }

  async #json(path, body, more = {}, signal = undefined) {
    const response = await this.#fetch(path, body, signal, more);
    try {
      return await response.json();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError("broken", "The server's answer cannot be read.");
    }
  }

  async #fetch(path, body, signal, more = {}) {
    const headers = { ...more, ...(this.#key === null ? {} : { Authorization: `Bearer ${this.#key}` }) };
    const options = { headers, signal, cache: "no-store", credentials: "omit" };
    if (body) {
      headers["Content-Type"] = "application/json";
      Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    }
    let response;
    try {
      response = await fetch(path, options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError("gone", "The server does not answer.");
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  }
}

/** Return the error that a refusal stands for. */
async function errorOf(response) {
  const said = await response.json().then((body) => body?.error?.message, () => null);
  if (response.status === 401) return new ServerError("key", plain(said) ?? "The server asks for a key.");
  if (response.status === 429 || response.status === 503) {
    const seconds = Number(response.headers.get("Retry-After"));
    const wait = response.headers.has("Retry-After") && seconds >= 0 ? seconds : 5;
    return new ServerError("busy", plain(said) ?? "The server is busy.", Math.min(wait, 600));
  }
  const kind = response.status < 500 ? "refused" : "broken";
  return new ServerError(kind, plain(said) ?? `The server answered with status ${response.status}.`);
}

/** Return a message as a sentence, or null. */
function plain(message) {
  if (typeof message !== "string" || !message.trim()) return null;
  const text = message.trim();
  return text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** Yield the data of server-sent events; `body` is a stream of bytes that can be cut anywhere. */
export async function* serverSentEvents(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      // A line break may be CR, LF or both; a CR at the end may be the first half.
      const lines = rest.split(/\r\n|\n|\r(?=[^])/);
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
        else if (!line && data.length) {
          yield data.join("\n");
          data = [];
        }
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {}); // tells the server when the caller stops early
  }
}
