// Bytes of one file from the server, from any place on, over as many requests as it takes. A connection that is cut or
// stands still goes on where it stopped; a server without ranges sends what came before once more.

import { Fault } from "./errors.js";

const STALLED_MS = 30_000;
const PAUSES_MS = [500, 2000, 5000, 10_000]; // between attempts that brought nothing

/** Yield the bytes of `url` from `from` to `end`. `waits` hears of each pause; `signal` ends it all. */
export async function* download(url, from, end, { signal, waits = () => {} } = {}) {
  let at = from;
  for (let failures = 0; at < end; ) {
    try {
      for await (const bytes of attempt(url, at, end, signal)) {
        at += bytes.length;
        failures = 0;
        yield bytes;
      }
      if (at < end) throw new Fault("network", "the connection ended early");
    } catch (error) {
      if (signal?.aborted || error.final) throw error;
      if (failures === PAUSES_MS.length) throw unreachable(url, error);
      waits();
      await pause(PAUSES_MS[failures++], signal);
    }
  }
}

/** Yield what one request brings. */
async function* attempt(url, at, end, signal) {
  const controller = new AbortController();
  const stop = () => controller.abort(signal.reason);
  signal?.addEventListener("abort", stop);
  let timer;
  const watch = () => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.abort(new Fault("network", "the server stopped sending")), STALLED_MS);
  };
  try {
    signal?.throwIfAborted();
    watch();
    const headers = at > 0 ? { Range: `bytes=${at}-${end - 1}` } : {};
    // Pieces are kept once, in the store.
    const response = await fetch(url, { headers, cache: "no-store", signal: controller.signal });
    let skip = skipped(response, url, at);
    for (const reader = response.body.getReader(); ; ) {
      watch();
      const { value, done } = await reader.read();
      if (done || at === end) return;
      const bytes = value.subarray(Math.min(skip, value.length)).subarray(0, end - at);
      skip -= Math.min(skip, value.length);
      at += bytes.length;
      if (bytes.length) yield bytes;
    }
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", stop);
    controller.abort();
  }
}

/** Return how many bytes of an answer come before the place that was asked for; throws for one that is of no use. */
function skipped(response, url, at) {
  if (response.status === 206) {
    const first = Number(/^bytes (\d+)-/.exec(response.headers.get("Content-Range") ?? "")?.[1] ?? NaN);
    if (first <= at) return at - first;
  } else if (response.status === 200) return at;
  const error = new Fault("network", `${nameOf(url)} cannot be fetched: the server answered ${response.status}`,
    "copy the whole folder to the server");
  error.final = response.status >= 400 && response.status < 500;
  throw error;
}

function unreachable(url, error) {
  const why = error instanceof Fault ? error.message : "the server does not answer";
  return new Fault("network", `${nameOf(url)} cannot be fetched: ${why}`, "look at the connection, and try again");
}

const nameOf = (url) => new URL(url).pathname.split("/").pop();

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}
