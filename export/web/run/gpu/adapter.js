// The GPU of this machine through WebGPU: found, opened with the largest limits that it has, and lost. Every fault becomes
// one line, and every wait has a limit: a driver that hangs is a lost device.

import { Fault } from "../errors.js";

const WAIT_MS = 60_000;
const SOFTWARE_WAIT_MS = 1_800_000;
const NOTICED_MS = 500;
const LIMITS = [
  "maxBufferSize", "maxStorageBufferBindingSize", "maxStorageBuffersPerShaderStage", "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX", "maxComputeWorkgroupsPerDimension",
];
const ELSE = "compute on the CPU";

/** Open a GPU. One that is made of software is slower than the CPU, so it has to be wanted. */
export async function openGpu(software) {
  const [adapter, isSoftware] = await findGpu(software);
  const requiredLimits = Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
  try {
    return new GpuDevice(adapter, await adapter.requestDevice({ requiredLimits }), isSoftware);
  } catch (error) {
    throw new Fault("device", `the GPU cannot be opened: ${firstLine(error)}`, ELSE);
  }
}

/** Return an adapter, and whether it is made of software. Throws a fault of the kind "device" where there is none. */
export async function findGpu(software) {
  if (!navigator.gpu) throw new Fault("device", "this browser has no WebGPU", ELSE);
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" }).catch(() => null);
  if (!adapter) throw new Fault("device", "WebGPU finds no GPU here", ELSE);
  const isSoftware = adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter ?? false;
  if (isSoftware && !software) throw new Fault("device", "WebGPU has a software adapter alone", ELSE);
  return [adapter, isSoftware];
}

/** Say whether an adapter's compiler takes kernels with two products; see adapter.py. */
export const fuses = ({ info }) => !/swiftshader/i.test([info?.vendor, info?.architecture, info?.description].join(" "));

export class GpuDevice {
  #lost = null;
  #fault = null;
  #wait;
  #closed = false;

  constructor(adapter, handle, software) {
    const { vendor = "", architecture = "", description = "" } = adapter.info ?? {};
    const name = description || [vendor, architecture].filter(Boolean).join(" ") || "GPU";
    this.handle = handle;
    this.limits = handle.limits;
    this.fuses = fuses(adapter);
    this.title = software ? `${name} (software)` : name;
    this.#wait = software ? SOFTWARE_WAIT_MS : WAIT_MS;
    handle.lost.then(({ message, reason }) => (this.#lost = message || reason));
    handle.addEventListener("uncapturederror", ({ error }) => (this.#fault ??= error));
  }

  /** Make a buffer; throws where it does not fit. */
  async buffer(size, usage, label) {
    const most = this.limits.maxBufferSize;
    if (size > most) {
      throw new Fault("device", `the GPU's buffers hold ${megabytes(most)}, and ${label} takes ${megabytes(size)}`, ELSE);
    }
    this.handle.pushErrorScope("out-of-memory");
    const buffer = this.handle.createBuffer({ size: Math.max(16, roundUp(size, 4)), usage, label });
    const refused = await this.handle.popErrorScope().catch(() => null);
    if (refused) throw new Fault("device", `the GPU has no ${megabytes(size)} for ${label}`, ELSE);
    return buffer;
  }

  /** Compile a kernel. Bindings are declared from its source: a kernel need not use all of them. */
  async kernel(name, code) {
    const module = this.handle.createShaderModule({ code, label: name });
    const entries = [...code.matchAll(BINDING)].map(([, binding, space, access]) => ({
      binding: Number(binding), visibility: GPUShaderStage.COMPUTE, buffer: { type: typeOf(space, access) },
    }));
    const layout = this.handle.createBindGroupLayout({ entries });
    const how = {
      label: name,
      layout: this.handle.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module, entryPoint: "main" },
    };
    try {
      return { name, layout, pipeline: await this.within(this.handle.createComputePipelineAsync(how)) };
    } catch (error) {
      if (error instanceof Fault) throw error;
      const { messages } = await module.getCompilationInfo().catch(() => ({ messages: [] }));
      throw new Fault("device", `the GPU refuses the kernel ${name}: ${messages[0]?.message ?? firstLine(error)}`, ELSE);
    }
  }

  bound(kernel, resources) {
    const entries = resources.map((resource, binding) => ({ binding, resource }));
    return this.handle.createBindGroup({ layout: kernel.layout, entries, label: kernel.name });
  }

  /** Return what a promise of the device gives, within the time limit; a lost device throws. */
  async within(promise) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(this.#lose(`it did not answer for ${this.#wait / 1000} seconds`)), this.#wait);
    });
    try {
      const value = await Promise.race([promise, late]);
      this.check();
      return value;
    } catch (error) {
      // A wait that fails may be the first sign of a loss.
      await Promise.race([this.handle.lost, new Promise((resolve) => setTimeout(resolve, NOTICED_MS))]);
      this.check();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Throw what has gone wrong since the last look. */
  check() {
    if (this.#lost !== null) throw this.#lose(this.#lost);
    if (this.#fault) throw new Fault("device", `the GPU refuses a pass: ${firstLine(this.#fault)}`, ELSE);
  }

  close() {
    if (!this.#closed) this.handle.destroy();
    this.#closed = true;
  }

  #lose(why) {
    this.#lost ??= why;
    return new Fault("lost", `the GPU was lost: ${firstLine({ message: this.#lost })}`, "the CPU goes on");
  }
}

const BINDING = /@binding\((\d+)\)\s*var<\s*(uniform|storage)\s*(?:,\s*(read_write|read)\s*)?>/g;

function typeOf(space, access) {
  if (space === "uniform") return "uniform";
  return access === "read_write" ? "storage" : "read-only-storage";
}

export const roundUp = (value, to) => Math.ceil(value / to) * to;
const megabytes = (count) => `${Math.ceil(count / 1e6)} MB`;
const firstLine = (error) => String(error?.message ?? error).trim().split("\n", 1)[0].slice(0, 200);
