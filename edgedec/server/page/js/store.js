// Conversations in IndexedDB: `heads` has what the list shows, `bodies` the whole of each. Without a database (a private
// window, perhaps) they live in memory, and the page says so.

import { newId } from "./conversation.js";

const DATABASE = "edgedec";

const answered = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

const finished = (transaction) =>
  new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error);
  });

export class Store extends EventTarget {
  #database = null;
  #memory = new Map();
  #channel = "BroadcastChannel" in window ? new BroadcastChannel(DATABASE) : null;

  /** Whether conversations outlive the page. */
  get lasting() {
    return this.#database !== null;
  }

  /** Open the database; another tab's changes come as the event "elsewhere" with the conversation's id. */
  async open() {
    try {
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => {
        request.result.createObjectStore("heads", { keyPath: "id" });
        request.result.createObjectStore("bodies", { keyPath: "id" });
      };
      this.#database = await answered(request);
      this.#database.onversionchange = () => this.#database.close();
    } catch {
      this.#database = null;
    }
    this.#channel?.addEventListener("message", ({ data }) =>
      this.dispatchEvent(new CustomEvent("elsewhere", { detail: data })),
    );
  }

  /** Return id, title, times and state of each conversation, the one used last first. */
  async list() {
    const heads = this.#database
      ? await answered(this.#database.transaction("heads").objectStore("heads").getAll())
      : [...this.#memory.values()].map(headOf);
    return heads.sort((one, other) => other.updated - one.updated);
  }

  async read(id) {
    if (!this.#database) return structuredClone(this.#memory.get(id) ?? null);
    return (await answered(this.#database.transaction("bodies").objectStore("bodies").get(id))) ?? null;
  }

  async readAll() {
    if (!this.#database) return [...this.#memory.values()];
    return answered(this.#database.transaction("bodies").objectStore("bodies").getAll());
  }

  /**
   * Write a conversation. Where another tab has written it since it was read, this one becomes a copy: both stay.
   * Throws where the browser has no room.
   */
  async write(conversation) {
    const known = conversation.revision;
    if (!this.#database) {
      conversation.revision += 1;
      this.#memory.set(conversation.id, structuredClone(conversation));
      return;
    }
    const transaction = this.#database.transaction(["heads", "bodies"], "readwrite");
    const heads = transaction.objectStore("heads");
    const request = heads.get(conversation.id);
    request.onsuccess = () => {
      if (request.result && request.result.revision > conversation.revision) {
        conversation.id = newId();
        conversation.title += " (copy)";
      }
      conversation.revision += 1;
      heads.put(headOf(conversation));
      transaction.objectStore("bodies").put(conversation);
    };
    try {
      await finished(transaction);
    } catch (error) {
      conversation.revision = known;
      throw error;
    }
    this.#channel?.postMessage(conversation.id);
  }

  async remove(id) {
    this.#memory.delete(id);
    if (!this.#database) return;
    const transaction = this.#database.transaction(["heads", "bodies"], "readwrite");
    for (const name of ["heads", "bodies"]) transaction.objectStore(name).delete(id);
    await finished(transaction);
    this.#channel?.postMessage(id);
  }
}

const headOf = ({ id, title, created, updated, revision }) => ({ id, title, created, updated, revision });
