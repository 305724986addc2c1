// Runs requests in edgedec.wasm: node wasm_runs.mjs WASM FOLDER OPTIONS REQUESTS. Prints, for each request, its tokens, text
// and figures, and a hash over the results of all passes. The option `threads` is for edgedec-fast.wasm; with
// `flat` nothing but passes takes time, so that drafts do not depend on how busy the machine is. With `timed` the costs of
// passes are measured first and printed, and the engine hears the seconds of each; otherwise it hears 1 for all.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { Worker, isMainThread, workerData } from "node:worker_threads";

let passed = null; // seconds, where passes alone take time
const now = { edgedec_now: () => passed ?? performance.now() / 1000, edgedec_peek: () => 1 };
if (!isMainThread) {
  const { module, memory, stack, tls } = workerData;
  const { exports } = new WebAssembly.Instance(module, { env: { memory, ...now } });
  exports.__stack_pointer.value = stack;
  exports.__wasm_init_tls(tls);
  exports.edgedec_web_help();
}

const [wasm, folder, options, requests] = process.argv.slice(2);
const FILES = readdirSync(folder, { recursive: true }).filter((name) => !/\.onnx$|tokenizer\.json$/.test(name));
const module = new WebAssembly.Module(readFileSync(wasm));
const shared = WebAssembly.Module.imports(module).some(({ kind }) => kind === "memory");
const own = shared ? { memory: new WebAssembly.Memory({ initial: 512, maximum: 65535, shared: true }) } : {};
const { exports } = new WebAssembly.Instance(module, { env: { ...own, ...now } });
const memory = own.memory ?? exports.memory;
exports._initialize();

const bytes = (address, size) => new Uint8Array(memory.buffer, address >>> 0, size);
const said = () => JSON.parse(Buffer.from(bytes(exports.edgedec_web_text(), exports.edgedec_web_text_size())).toString());

function put(data) {
  const address = exports.edgedec_web_alloc(data.length || 1);
  bytes(address, data.length).set(data);
  return address;
}

function call(name, ...given) {
  const code = exports[`edgedec_web_${name}`](...given);
  if (code) throw Error(JSON.stringify(said()));
}

function hashed(hash, pass) {
  const word = (at) => new Uint32Array(memory.buffer, pass, 20)[at];
  const rows = word(1), k = word(5), sizes = [rows * k, rows * k, rows, rows, word(3) ? rows * word(6) : 0];
  sizes.forEach((count, at) => hash.update(bytes(word(15 + at), 4 * count)));
}

function turns(engine, hash, pieces) {
  let state;
  while ((state = exports.edgedec_web_next(engine)) === 1) {
    const begin = performance.now();
    call("compute", engine);
    const seconds = timed ? (performance.now() - begin) / 1000 : 1.0;
    hashed(hash, exports.edgedec_web_pass_of(engine));
    call("give", engine, seconds);
    if (passed !== null) passed += 1.0;
    pieces.push(...said());
  }
  if (state < 0) throw Error(JSON.stringify(said()));
  return said();
}

for (const name of FILES.filter((one) => statSync(join(folder, one)).isFile())) {
  const data = readFileSync(join(folder, name)), text = Buffer.from(name);
  call("file", put(text), text.length, put(data), data.length);
}
const { threads = 1, flat = false, timed = false, ...others } = JSON.parse(options);
if (flat) passed = 0;
const helpers = Array.from({ length: threads - 1 }, () => {
  const stack = exports.edgedec_web_alloc(1 << 18) + (1 << 18), tls = exports.edgedec_web_alloc(exports.__tls_size.value + 64);
  return new Worker(new URL(import.meta.url), { workerData: { module, memory, stack, tls } });
});
const text = Buffer.from(JSON.stringify(others));
const engine = exports.edgedec_web_open(put(text), text.length);
if (!engine) throw Error(JSON.stringify(said()));
call("cpu", engine);
if (timed) {
  call("measure", engine);
  console.log(JSON.stringify({ costs: turns(engine, createHash("sha256"), []).costs }));
}
for (const request of JSON.parse(requests)) {
  const asked = Buffer.from(JSON.stringify(request)), hash = createHash("sha256"), pieces = [];
  call("begin", engine, put(asked), asked.length);
  const figures = turns(engine, hash, pieces);
  pieces.push(...figures.pieces);
  const tokens = pieces.filter((one) => one.id >= 0).map((one) => one.id);
  call("stats", engine);
  const drafted = said().drafted_by ?? {};
  console.log(JSON.stringify({ tokens, drafted, text: pieces.map((one) => one.text).join(""), bits: hash.digest("hex"), figures }));
}
for (const helper of helpers) helper.terminate();
