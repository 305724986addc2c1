// The files that web.json lists: whole pieces, each compared with its SHA-256 before anything uses it, out of the store or
// from the server. What comes from the server is kept on its way, so a visit that was cut off goes on where it stopped.

import { download } from "./download.js";
import { Fault } from "./errors.js";
import { room } from "./store.js";

const FORMAT = "edgedec-web";
const NOTHING_KEPT = "This browser keeps no files for this page: the model is fetched at each visit.";
const NO_ROOM = "This browser has no room to keep the model: it is fetched at each visit.";

/** Read the list of files of the page at `base`. */
export async function contents(base) {
  const url = new URL("web.json", base);
  let response;
  try {
    response = await fetch(url, { cache: "no-cache" });
  } catch {
    throw new Fault("network", "the server does not answer", "look at the connection, and reload the page");
  }
  const found = response.ok ? await response.json().catch(() => null) : null;
  if (found?.format !== FORMAT || found.version !== 1) {
    throw new Fault("network", "web.json of this page is missing or of another version", "export the folder again");
  }
  return found;
}

export class Files {
  #base;
  #list;
  #store;
  #signal;
  #told;
  #full;

  /**
   * `told({name, done, total, waiting})` hears of bytes that came; `full(line)` of a browser without room. `store` is
   * null where nothing can be kept.
   */
  constructor(base, list, store, { signal, told = () => {}, full = () => {} } = {}) {
    this.#base = base;
    this.#list = list;
    this.#store = store;
    this.#signal = signal;
    this.#told = told;
    this.#full = full;
  }

  entry(name) {
    const found = this.#list.files[name];
    if (!found) throw new Fault("network", `this page has no ${name}`, "export the folder again");
    return found;
  }

  has(name) {
    return name in this.#list.files;
  }

  /** Return how many bytes of some files have to come from the server. */
  async missing(names) {
    const sizes = this.#store ? await this.#store.sizes() : new Map();
    return names.reduce((sum, name) => {
      const { bytes, sha256 } = this.entry(name);
      return sum + bytes - Math.min(bytes, sizes.get(sha256) ?? 0);
    }, 0);
  }

  /** Stop keeping files where the browser says that it has no room for the missing ones. */
  async makeRoom(names) {
    if (!this.#store) return this.#full(NOTHING_KEPT);
    const [missing, free] = [await this.missing(names), await room()];
    if (missing <= free) return;
    this.#store = null;
    this.#full(NO_ROOM);
  }

  /** Return the whole of a small file. */
  async whole(name) {
    const all = new Uint8Array(this.entry(name).bytes);
    for await (const [offset, bytes] of this.pieces(name)) all.set(bytes, offset);
    return all;
  }

  async json(name) {
    return JSON.parse(new TextDecoder().decode(await this.whole(name)));
  }

  /** Yield [offset, bytes] for each piece of a file, in order. */
  async *pieces(name) {
    const entry = this.entry(name);
    const pieces = new Pieces(entry, this.#list.piece);
    const slot = await this.#slot(entry);
    try {
      yield* this.#kept(name, pieces, slot);
      yield* this.#fetched(name, pieces, slot);
    } finally {
      slot?.close();
    }
  }

  async #slot({ sha256 }) {
    return (await this.#store?.slot(sha256).catch(() => null)) ?? null;
  }

  /** Yield what the store has; from the first damaged piece on it is fetched again. */
  async *#kept(name, pieces, slot) {
    while (slot && pieces.left && slot.size >= pieces.end) {
      const bytes = slot.read(pieces.start, pieces.length);
      if (!(await pieces.holds(bytes))) break;
      yield* this.#next(name, pieces, bytes);
    }
    if (slot && slot.size > pieces.start) slot.truncate(pieces.start);
  }

  async *#fetched(name, pieces, slot) {
    for (let again = false; pieces.left; again = true) {
      for await (const bytes of this.#stream(name, pieces)) {
        if (!(await pieces.holds(bytes))) {
          if (!again) break; // bytes may change on their way
          throw new Fault("hash", `${name} is not the file that this page was made with: its SHA-256 differs`,
            "copy the whole folder to the server again");
        }
        if (slot && !kept(slot, bytes)) slot = this.#givenUp(slot);
        yield* this.#next(name, pieces, bytes);
      }
    }
  }

  /** Yield the rest of a file from the server, cut into pieces. */
  async *#stream(name, pieces) {
    const { bytes: size } = this.entry(name);
    let [filled, piece] = [0, new Uint8Array(pieces.length)];
    const tell = (waiting) => this.#told({ name, done: pieces.start + filled, total: size, waiting });
    const how = { signal: this.#signal, waits: () => tell(true) };
    for await (const bytes of download(new URL(name, this.#base).href, pieces.start, size, how)) {
      for (let at = 0; at < bytes.length; ) {
        const taken = bytes.subarray(at, at + piece.length - filled);
        piece.set(taken, filled);
        [filled, at] = [filled + taken.length, at + taken.length];
        tell(false);
        if (filled < piece.length) continue;
        yield piece;
        [filled, piece] = [0, new Uint8Array(pieces.length)];
      }
    }
  }

  *#next(name, pieces, bytes) {
    const offset = pieces.start;
    pieces.advance();
    this.#told({ name, done: pieces.start, total: this.entry(name).bytes, waiting: false });
    yield [offset, bytes];
  }

  /** Go on without keeping this file: the disk has become full. */
  #givenUp(slot) {
    slot.truncate(0);
    slot.close();
    this.#store = null;
    this.#full(NO_ROOM);
    return null;
  }
}

/** The pieces of a file that are still to come. */
class Pieces {
  #entry;
  #size;
  #index = 0;

  constructor(entry, size) {
    this.#entry = entry;
    this.#size = size;
  }

  get left() {
    return this.start < this.#entry.bytes;
  }

  get start() {
    return Math.min(this.#index * this.#size, this.#entry.bytes);
  }

  get end() {
    return Math.min(this.start + this.#size, this.#entry.bytes);
  }

  get length() {
    return this.end - this.start;
  }

  advance() {
    this.#index += 1;
  }

  /** Say whether these are the bytes of the piece that comes next. */
  async holds(bytes) {
    const hashes = this.#entry.pieces ?? [this.#entry.sha256];
    return bytes.length === this.length && (await sha256(bytes)) === hashes[this.#index];
  }
}

async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function kept(slot, bytes) {
  try {
    slot.append(bytes);
    return true;
  } catch {
    return false;
  }
}
