// Replies of a folder's model on a GPU, by the modules of its page and without the page. A pass takes a second and nothing else
// takes time, so that drafts do not depend on how busy the machine is. `waits`: whether WebAssembly can wait for promises.
async ({ draft, costs, requests, waits }) => {
  if (!waits) delete WebAssembly.promising;
  const base = new URL("./", location).href;
  const from = (name) => import(new URL(`run/${name}.js`, base));
  const [{ Wasm }, { Engine }, { Gpu }, { openGpu }, { Files, contents }] = await Promise.all(
    ["wasm", "engine", "gpu/gpu", "gpu/adapter", "files"].map(from),
  );
  let now = 0;
  performance.now = () => now;
  const list = await contents(base);
  const files = new Files(base, list, null);
  const device = await openGpu(true);
  const wasm = await Wasm.load(await files.whole(list.parts.wasm));
  for (const name of list.parts.engine) {
    await wasm.file(name.replace(/^model\//, ""), files.entry(name).bytes, files.pieces(name));
  }
  const engine = new Engine(wasm, { context: 256, max_pass: list.max_pass, draft, costs });
  const program = device.fuses ? list.parts.program : (list.parts.apart ?? list.parts.program);
  const computer = await Gpu.make(device, files, { ...list.parts, program }, engine, wasm);
  const compute = computer.compute.bind(computer);
  const counts = { peeks: 0, trimmed: 0, done: 0 };
  computer.compute = async (pass) => {
    await compute(pass);
    if (!pass.above) now += 1000;
    counts.peeks += pass.above > 0;
    counts.trimmed += pass.kept > 0;
    counts.done += !pass.above && pass.done;
    if (pass.above) engine.stats(); // other calls are heard while the module waits
  };
  engine.use(computer);
  if (computer.exits.length && wasm.waits) engine.peek(computer.exits);
  const replies = [];
  for (const request of requests) {
    const tokens = [];
    const heard = (more) => tokens.push(...more.map(({ id }) => id));
    const figures = await engine.reply(request, heard);
    replies.push({ tokens: [...tokens, ...(figures.pieces ?? []).map(({ id }) => id)].filter((id) => id >= 0), figures });
  }
  const { exact, exits } = computer;
  const { drafted_by: drafted = {} } = engine.stats();
  engine.close();
  return { replies, exact, exits, drafted, counts, program, draft: engine.facts.draft };
}
