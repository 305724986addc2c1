// The steps of a program on a device: kernels compiled once for each source, buffers bound once for each step.

import { sources } from "./shaders.js";

/** Workgroups by one count: ceil(value * times / over), as GridCount of program.py. */
function groups({ per, times, over }, facts) {
  const value = { once: 1, tokens: facts.tokens, rows: facts.rows, steps: facts.behind + facts.tokens }[per];
  return Math.ceil((value * times) / over);
}

export class Steps {
  #steps;

  /** Compile and bind `steps`; their kernels are places in `program.kernels`. */
  static async make(device, memory, program, steps, compiled, uniform) {
    const made = new Steps();
    made.#steps = await Promise.all(
      steps.map(async (step) => {
        const kernel = await compiled(step.kernel);
        const bound = [{ buffer: uniform }, ...step.bind.map((name) => memory.part(name))];
        return { ...step, pipeline: kernel.pipeline, group: device.bound(kernel, bound) };
      }),
    );
    return made;
  }

  /** Dispatch the steps of a pass. `facts`: tokens, rows, behind; `first`: with those that are not the head's. */
  dispatch(pass, facts, first) {
    for (const { tokens, when, grid, pipeline, group } of this.#steps) {
      if (tokens && (facts.tokens < tokens[0] || facts.tokens > tokens[1])) continue;
      if (when === "always" ? !first : !facts.rows) continue;
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
