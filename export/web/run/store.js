// Downloaded files in the browser's own file system (OPFS), by their hashes. A file grows by whole pieces that were checked,
// so its size says how much of it is there. Only a worker has the handles that write in place.

export class Store {
  #folder;
  #parent;
  #name;

  constructor(parent, folder, name) {
    this.#parent = parent;
    this.#folder = folder;
    this.#name = name;
  }

  /** Return the store of the page at `address`, or null where the browser has none (a private window, perhaps). */
  static async open(address) {
    try {
      const parent = await navigator.storage.getDirectory();
      const name = `edgedec-${new URL(address).pathname.replace(/[^A-Za-z0-9]+/g, "-")}`;
      const store = new Store(parent, await parent.getDirectoryHandle(name, { create: true }), name);
      const trial = `.${crypto.randomUUID()}`; // another tab may try at the same time
      (await store.slot(trial)).close();
      await store.remove(trial);
      return store;
    } catch {
      return null;
    }
  }

  /** Open a file to read and write; close it soon, because it is locked for other tabs. */
  async slot(name) {
    const file = await this.#folder.getFileHandle(name, { create: true });
    return new Slot(await file.createSyncAccessHandle());
  }

  /** Return the bytes of each file that is kept, by its name. */
  async sizes() {
    const sizes = new Map();
    for await (const [name, handle] of this.#folder.entries()) sizes.set(name, (await handle.getFile()).size);
    return sizes;
  }

  async text(name) {
    try {
      return await (await (await this.#folder.getFileHandle(name)).getFile()).text();
    } catch {
      return null;
    }
  }

  /** Keep a small text; a full disk only means that it is made again at the next start. */
  async keep(name, text) {
    const slot = await this.slot(name).catch(() => null);
    try {
      slot?.truncate(0);
      slot?.append(new TextEncoder().encode(text));
    } catch {
      slot.truncate(0);
    } finally {
      slot?.close();
    }
  }

  async remove(name) {
    await this.#folder.removeEntry(name).catch(() => {});
  }

  /** Delete all that is kept. */
  async clear() {
    await this.#parent.removeEntry(this.#name, { recursive: true });
    this.#folder = await this.#parent.getDirectoryHandle(this.#name, { create: true });
  }
}

class Slot {
  #handle;

  constructor(handle) {
    this.#handle = handle;
    this.size = handle.getSize();
  }

  /** Return the bytes at `offset`, fewer where the file ends. */
  read(offset, count) {
    const bytes = new Uint8Array(count);
    return bytes.subarray(0, this.#handle.read(bytes, { at: offset }));
  }

  /** Write at the end. Throws where there is no room; the file is then as before. */
  append(bytes) {
    try {
      if (this.#handle.write(bytes, { at: this.size }) !== bytes.length) throw new Error("the disk is full");
      this.#handle.flush();
      this.size += bytes.length;
    } catch (error) {
      this.truncate(this.size);
      throw error;
    }
  }

  truncate(size) {
    this.#handle.truncate(size);
    this.size = size;
  }

  close() {
    this.#handle.close();
  }
}

/** Return how many bytes this page may still keep, as far as the browser tells; some tell more than there is. */
export async function room() {
  try {
    const { quota, usage } = await navigator.storage.estimate();
    return Math.max(0, quota - usage);
  } catch {
    return Infinity;
  }
}
