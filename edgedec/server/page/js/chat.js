// The conversation that is open, and the replies in progress; views listen to its events:
// "open" (another conversation), "change" (its messages), "reply" (text of one message), "ended", "list", "notice".

import * as tree from "./conversation.js";
import { written } from "./exchange.js";
import { Run } from "./run.js";
import { anySeed } from "./sampling.js";
import { Toolbox } from "./tools.js";

const SAVE_EVERY_MS = 400;

export class Chat extends EventTarget {
  #server;
  #store;
  #askKey;
  #runs = new Map(); // by conversation, so that a reply goes on while another conversation is open
  #defaults;
  #toolbox = new Toolbox();

  constructor(server, store, askKey, defaults) {
    super();
    this.#server = server;
    this.#store = store;
    this.#askKey = askKey;
    this.#defaults = defaults;
    this.conversation = tree.create(defaults());
    store.addEventListener("elsewhere", ({ detail }) => this.#changedElsewhere(detail));
    addEventListener("pagehide", () => this.#runs.forEach((run) => this.save(run.conversation)));
  }

  /** The reply in progress in the open conversation. */
  get run() {
    return this.#runs.get(this.conversation) ?? null;
  }

  isRunning(id) {
    return [...this.#runs.keys()].some((conversation) => conversation.id === id);
  }

  async open(id) {
    const running = [...this.#runs.keys()].find((conversation) => conversation.id === id);
    const found = running ?? (await this.#store.read(id));
    if (!found) return this.begin();
    this.conversation = running ?? tree.settle(found);
    this.#tell("open");
  }

  begin() {
    const model = this.conversation.model;
    this.conversation = tree.create({ model, ...this.#defaults() });
    this.#tell("open");
  }

  send(text) {
    const tip = this.conversation.messages[this.conversation.tip] ?? null;
    // What follows a reply without text is asked in place of its question: two questions in a row suit no template.
    const parent = tip && tree.unanswered(tip) ? this.conversation.messages[tip.parent].parent : (tip?.id ?? null);
    this.#answer(tree.add(this.conversation, "user", parent, { text }));
  }

  /** Ask differently: a sibling of the question, and a reply to it. */
  edit(question, text) {
    this.#answer(tree.add(this.conversation, "user", question.parent, { text }));
  }

  /** Reply again: in place of a reply without text, else beside the reply and with another seed. */
  retry(reply) {
    if (tree.unanswered(reply)) this.#start(reply);
    else this.#answer(this.conversation.messages[reply.parent], anySeed());
  }

  /** Go on with a reply that was cut. */
  more(reply) {
    this.#start(reply, true);
  }

  stop() {
    this.run?.stop();
  }

  show(message) {
    tree.show(this.conversation, message);
    this.save();
    this.#tell("change");
  }

  set(values) {
    Object.assign(this.conversation, values);
    if (this.conversation.tip !== null) this.save();
    this.#tell("change");
  }

  async rename(id, title) {
    const conversation = this.conversation.id === id ? this.conversation : await this.#store.read(id);
    if (!conversation) return;
    conversation.title = title;
    await this.save(conversation);
    this.#tell("change");
  }

  async remove(id) {
    for (const [conversation, run] of this.#runs) if (conversation.id === id) await run.stop();
    await this.#store.remove(id);
    if (this.conversation.id === id) this.begin();
    this.#tell("list");
  }

  /** Return the file of one conversation, or of all. */
  async exported(id = null) {
    if (this.run) await this.save();
    return written((id ? [await this.#store.read(id)] : await this.#store.readAll()).filter(Boolean).map(tree.settle));
  }

  async import(conversations) {
    for (const conversation of conversations) await this.#store.write(conversation);
    this.#tell("list");
    if (conversations.length) await this.open(conversations[0].id);
  }

  /** Write a conversation; a browser without room is told of, and what is on the page stays. */
  async save(conversation = this.conversation) {
    try {
      await this.#store.write(conversation);
      this.#tell("list");
    } catch {
      this.#tell("notice", "The browser did not keep this conversation: it may be out of room. Export it to keep it.");
    }
  }

  #answer(question, seed = null) {
    const empty = { reasoning: "", tokens: [], figures: {}, seed };
    this.#start(tree.add(this.conversation, "assistant", question.id, empty));
  }

  async #start(reply, continues = false) {
    const conversation = this.conversation;
    if (this.#runs.has(conversation)) return;
    const run = new Run(this.#server, conversation, reply, continues, this.#askKey, this.#toolbox);
    this.#runs.set(conversation, run);
    run.onnotice = (text) => this.#tell("notice", text);
    let saved = 0;
    run.onchange = () => {
      if (Date.now() - saved > SAVE_EVERY_MS) {
        saved = Date.now();
        this.save(conversation);
      }
      if (conversation === this.conversation) this.#tell("reply", reply);
    };
    this.#tell("change");
    await run.finished();
    this.#runs.delete(conversation);
    conversation.updated = Date.now();
    await this.save(conversation);
    if (conversation === this.conversation) this.#tell("change");
    this.#tell("ended", reply);
  }

  async #changedElsewhere(id) {
    this.#tell("list");
    if (id !== this.conversation.id || this.run) return;
    const found = await this.#store.read(id);
    const running = found && Object.values(found.messages).some((message) => message.state === "running");
    if (!found || running || id !== this.conversation.id || this.run) return;
    this.conversation = found;
    this.#tell("open");
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
