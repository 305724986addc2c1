// Asks the GPU which float operations it computes right, and chooses the prelude's variants by the answer, as arithmetic.py
// does: the device's own where it is right, one in integers elsewhere. run/probe.json has operands and exact results.

import { sources } from "./shaders.js";

const NATIVE = "native";
const EXACT = "exact";
const SUBNORMAL = "2".charCodeAt(0);
const BITS = ["dot", "float to half"]; // results that are no floats: every bit of them counts

/** Return the variants, the names of results that are wrong all the same, and those wrong for tiny numbers alone. */
export async function probe(device, files, data) {
  const variants = Object.fromEntries(files.primitives.map((name) => [name, NATIVE]));
  let found;
  try {
    found = await results(device, files, data, variants);
  } catch (error) {
    if (error.kind !== "device") throw error; // else: a compiler without the packed dot product
    variants.dot = EXACT;
    found = await results(device, files, data, variants);
  }
  const wrong = found.filter((one) => one.wrong && one.primitive).map((one) => one.primitive);
  if (wrong.length) {
    for (const primitive of wrong) variants[primitive] = EXACT;
    found = await results(device, files, data, variants);
  }
  const named = (kind) => found.filter((one) => one[kind]).map((one) => one.name);
  return { variants, failed: named("wrong"), flushed: named("flushed") };
}

async function results(device, files, data, variants) {
  const { handle } = device;
  const operands = data.operands.map(bytesOf);
  const count = operands[0].length / 4;
  const size = operands[0].length * data.results.length;
  const kernel = await device.kernel("probe", sources(files, variants)("wgsl/probe", ""));
  const { STORAGE, UNIFORM, COPY_DST, COPY_SRC, MAP_READ } = GPUBufferUsage;
  const made = [];
  const buffer = async (bytes, usage) => made[made.push(await device.buffer(bytes, usage, "the probe")) - 1];
  try {
    const uniform = await buffer(32, UNIFORM | COPY_DST);
    const inputs = [];
    for (const bytes of operands) {
      inputs.push(await buffer(bytes.length, STORAGE | COPY_DST));
      handle.queue.writeBuffer(inputs.at(-1), 0, bytes);
    }
    const out = await buffer(size, STORAGE | COPY_SRC);
    const read = await buffer(size, MAP_READ | COPY_DST);
    const encoder = handle.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(kernel.pipeline);
    pass.setBindGroup(0, device.bound(kernel, [uniform, ...inputs, out].map((one) => ({ buffer: one }))));
    pass.dispatchWorkgroups(Math.ceil(count / 64));
    pass.end();
    encoder.copyBufferToBuffer(out, 0, read, 0, size);
    handle.queue.submit([encoder.finish()]);
    await device.within(read.mapAsync(GPUMapMode.READ));
    const words = new Uint32Array(read.getMappedRange());
    return data.results.map((expected, index) => compared(expected, words.subarray(index * count, (index + 1) * count)));
  } finally {
    for (const one of made) one.destroy();
  }
}

/** Return how words differ from a result of the file; any NaN equals any other. */
export function compared({ name, primitive, words, kinds }, got) {
  const wanted = new Uint32Array(bytesOf(words).buffer);
  let [wrong, flushed] = [false, false];
  for (let index = 0; index < wanted.length; index++) {
    if (wanted[index] === got[index]) continue;
    if (!BITS.includes(name) && isNan(wanted[index]) && isNan(got[index])) continue;
    if (kinds.charCodeAt(index) === SUBNORMAL) flushed = true;
    else wrong = true;
  }
  return { name, primitive, wrong, flushed };
}

const isNan = (word) => (word & 0x7fffffff) > 0x7f800000;

export function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
