// Sources of kernels: constants, the prelude that the probe chose, and the kernel's file, as shaders.py joins them.

/** Return a function from a kernel's name and the text of its constants to its source; `files` is run/shaders.json. */
export function sources(files, variants) {
  const prelude = files.prelude.map((name) => files.texts[name.replace(/\{(\w+)\}/, (_, primitive) => variants[primitive])]);
  const text = (name) => files.texts[name];
  return (kernel, constants) => [constants, ...prelude, ...files.parts[kernel].map(text)].filter(Boolean).join("\n");
}
