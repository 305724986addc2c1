// A thread that helps edgedec-fast.wasm with passes: another instance of the module over the same memory, with its own stack.

addEventListener("message", async ({ data: { module, memory, stack, tls } }) => {
  const env = { memory, edgedec_now: () => performance.now() / 1000, edgedec_peek: () => 1 };
  const { exports } = await WebAssembly.instantiate(module, { env });
  exports.__stack_pointer.value = stack;
  exports.__wasm_init_tls(tls);
  exports.edgedec_web_help(); // does not return
});
