// Whether edgedec-fast.wasm runs here with the bits of edgedec.wasm: the browser has shared memory and relaxed SIMD, its
// multiply-add rounds once, and its product of bytes is right. The standard lets a browser round twice. Early versions of V8
// counted products twice.

const vector = (bits) => [0xfd, 0x0c, ...[0, 1, 2, 3].flatMap(() => [0, 8, 16, 24].map((at) => (bits >>> at) & 255))];
const section = (id, bytes) => [id, bytes.length, ...bytes];

/** Code that says whether an operation of three vectors gives a fourth one; all their 32-bit lanes are alike. */
const gives = (operation, a, b, c, result) =>
  [...vector(a), ...vector(b), ...vector(c), 0xfd, operation, 2, ...vector(result), 0xfd, 0x37, 0xfd, 0xa3, 1];

/** A module with the function f: 1 where both operations are exact. */
function probe() {
  const code = [
    0, // no locals
    ...gives(0x85, 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000), // (1 + 2^-23)^2 - (1 + 2^-22) = 2^-46
    ...gives(0x93, 0x9c9c9c9c, 0x64646464, 5, -39995), // 4 (-100) 100 + 5
    0x71, 0x0b, // and, end
  ];
  const type = section(1, [1, 0x60, 0, 1, 0x7f]), exported = section(7, [1, 1, 0x66, 0, 0]); // f() -> i32
  const size = [(code.length & 127) | 128, code.length >> 7], body = [1, ...size, ...code];
  const codes = [10, (body.length & 127) | 128, body.length >> 7, ...body];
  return Uint8Array.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, ...type, ...section(3, [1, 0]), ...exported, ...codes]);
}

export function runsFast() {
  try {
    new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true });
    return new WebAssembly.Instance(new WebAssembly.Module(probe())).exports.f() === 1;
  } catch {
    return false; // one of both is not there
  }
}
