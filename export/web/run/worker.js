// The worker that holds the model, so that the page never waits for it. Messages in: {id, call, given}. Messages out:
// {id, value} or {id, fault} as the answer, and {event, ...} in between.

import { faultOf } from "./errors.js";
import { Model } from "./model.js";
import { Replies } from "./replies.js";
import { State } from "./state.js";

const BASE = new URL("../", import.meta.url).href;

const state = new State((now) => postMessage({ event: "state", state: now }));
const model = new Model(BASE, state);
const replies = new Replies();
let loading = null;
let settings = { device: "auto" };

/** Load the model once, however many ask; other tabs wait, because they share what is kept. */
function load() {
  loading ??= alone(() => model.load(settings)).catch((error) => {
    loading = null;
    const fault = faultOf(error);
    state.set(fault.kind === "stopped" ? { phase: "absent", fault: null } : { phase: "failed", fault });
    throw error;
  });
  return loading;
}

async function alone(work) {
  const name = `edgedec ${BASE}`;
  let free = false;
  const done = await navigator.locks.request(name, { ifAvailable: true }, (lock) => (free = lock !== null) && work());
  if (free) return done;
  state.set({ phase: "waiting" });
  return navigator.locks.request(name, work);
}

const CALLS = {
  async look(given) {
    settings = { ...settings, ...given };
    return model.look(settings);
  },

  /** Take other settings; a model that was loaded, or failed to, is loaded anew. */
  async set(given) {
    settings = { ...settings, ...given };
    if (!loading && state.now.phase !== "failed") return;
    await CALLS.unload();
    await load();
  },

  load,

  async unload() {
    model.cancel();
    await loading?.catch(() => {});
    loading = null;
    model.close();
    state.set({ phase: "absent", device: null, memory: null, notice: null, fault: null });
  },

  async remove() {
    await CALLS.unload();
    await model.remove();
  },

  async reply(given, id) {
    const engine = async () => {
      await load();
      return model.engine;
    };
    const figures = await replies.ask(engine, id, given, (tokens) => postMessage({ event: "tokens", id, tokens }));
    if (figures.costs) await model.keepCosts(figures.costs);
    if (figures.notes) state.set({ notes: [...state.now.notes, ...figures.notes] });
    return figures;
  },

  stop({ id }) {
    replies.stop(id);
  },

  cancel() {
    model.cancel();
  },

  stats() {
    return { waiting: Math.max(0, replies.count - 1), running: Math.min(1, replies.count), engine: model.engine?.stats() ?? null };
  },
};

addEventListener("message", async ({ data: { id, call, given } }) => {
  try {
    postMessage({ id, value: await CALLS[call](given, id) });
  } catch (error) {
    postMessage({ id, fault: faultOf(error) });
  }
});
