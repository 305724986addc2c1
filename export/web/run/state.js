// The state of the model for the page: progress, device, and memory. Every change is sent.

export class State {
  #send;
  #due = null;

  /** `phase`: absent, waiting (for another tab), fetching, preparing, ready, failed. */
  now = {
    phase: "absent", done: 0, total: 0, waiting: false, device: null, memory: null, notice: null, fault: null,
    drafters: [], cpuDrafters: [], kv: "fp16", notes: [],
  };

  constructor(send) {
    this.#send = send;
  }

  set(values) {
    Object.assign(this.now, values);
    this.#tell();
  }

  /** Take what often changes, and send it a few times a second. */
  progress(values) {
    Object.assign(this.now, values);
    this.#due ??= setTimeout(() => this.#tell(), 100);
  }

  #tell() {
    clearTimeout(this.#due);
    this.#due = null;
    this.#send(this.now);
  }
}
