// The steps of a program on a device: kernels compiled once for each source, buffers bound once for each step.

import { sources } from "./shaders.js";

/** Workgroups by one count: ceil(value * times / over), as GridCount of program.py. */
function groups({ per, times, over }, facts) {
  const { tokens, rows, kept = 0, tiles = 0, behind } = facts;
  const value = { once: 1, tokens, rows, kept, tiles, steps: behind + tokens }[per];
  return Math.ceil((value * times) / over);
}

const TRIMMED = "kept";

export class Steps {
  #steps;
  #ready;

  /** Compile and bind `steps`, but for those of a trimmed head; their kernels are places in `program.kernels`. */
  static async make(device, memory, program, steps, compiled, uniform) {
    const made = new Steps();
    made.#ready = async (step) => {
      const kernel = await compiled(step.kernel);
      const bound = [{ buffer: uniform }, ...step.bind.map((name) => memory.part(name))];
      return { ...step, pipeline: kernel.pipeline, group: device.bound(kernel, bound) };
    };
    made.#steps = await Promise.all(steps.map((step) => (step.when === TRIMMED ? step : made.#ready(step))));
    return made;
  }

  /** Make those of a trimmed head ready too, with which few models draft. */
  async trim() {
    this.#steps = await Promise.all(this.#steps.map((step) => (step.pipeline ? step : this.#ready(step))));
  }

  /** Dispatch the steps of a pass, from `begin` to `end`. `facts`: its sizes; `first`: with those that are not the head's. */
  dispatch(pass, facts, first, begin = 0, end = this.#steps.length) {
    const heads = ["rows", facts.kept ? TRIMMED : "whole"];
    for (const { tokens, when, grid, pipeline, group } of this.#steps.slice(begin, end)) {
      if (tokens && (facts.tokens < tokens[0] || facts.tokens > tokens[1])) continue;
      if (when === "always" ? !first : !facts.rows || !heads.includes(when)) continue;
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(...grid.map((count) => groups(count, facts)));
    }
  }
}

/** Return a function that compiles a kernel of a program at its first use. */
export function compiler(device, program, files, variants) {
  const source = sources(files, variants);
  const made = new Map();
  return (index) => {
    const { kernel, constants } = program.kernels[index];
    if (!made.has(index)) made.set(index, device.kernel(kernel, source(kernel, constants)));
    return made.get(index);
  };
}
