// The server's state at the foot: memory against its budget, requests, and whether it answers at all.

import { byId } from "./dom.js";
import { bytes } from "./figures.js";

const OFTEN_MS = 3000; // during a reply, and while the server is gone
const SELDOM_MS = 15000;

export class Status {
  #timer = null;
  #gone = false;

  /** Requests in the server's queue. */
  waiting = 0;

  /** `taken` gets each status; `back` is called when a server that was gone answers. */
  constructor(chat, server, taken, back) {
    Object.assign(this, { chat, server, taken, back });
    document.addEventListener("visibilitychange", () => this.poll());
    chat.addEventListener("change", () => this.poll());
    byId("again").addEventListener("click", () => this.poll());
  }

  /** Ask now, and again later while the page is seen. */
  async poll() {
    clearTimeout(this.#timer);
    if (document.hidden) return;
    try {
      const status = await this.server.status();
      this.#show(status);
      this.taken(status);
      this.#answers(true);
    } catch (error) {
      this.#answers(error.kind !== "gone");
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.poll(), this.chat.run || this.#gone ? OFTEN_MS : SELDOM_MS);
  }

  #answers(yes) {
    byId("gone").hidden = yes;
    if (yes && this.#gone) this.back();
    this.#gone = !yes;
  }

  #show(status) {
    const { memory_bytes: used, memory_budget_bytes: budget } = status;
    const meter = byId("memory");
    const words = budget ? `Memory ${bytes(used)} of ${bytes(budget)}` : `Memory ${bytes(used)}`;
    byId("memory-words").textContent = used ? words : "";
    meter.hidden = !budget;
    if (budget) {
      const share = Math.min(1, used / budget);
      meter.setAttribute("aria-valuenow", String(Math.round(100 * share)));
      meter.setAttribute("aria-valuetext", byId("memory-words").textContent);
      meter.classList.toggle("nearly", share > 0.9);
      meter.firstElementChild.style.width = `${100 * share}%`;
    }
    this.waiting = status.waiting;
    const others = status.running - (this.chat.run ? 1 : 0);
    const queue = [];
    if (others > 0) queue.push(others === 1 ? "one other reply runs" : `${others} other replies run`);
    if (status.waiting) queue.push(`${status.waiting} waiting`);
    if (status.closing) queue.push("the server is closing");
    byId("queue").textContent = queue.join(" · ");
  }
}
