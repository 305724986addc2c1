// The instruction sets of this CPU, and the choice of the row that runs.
#pragma once

namespace edgedec {

// True when this CPU (and operating system) can run a row: scalar; avx2, avx_vnni, avx512, avx512_vnni, amx; neon,
// neon_dotprod, neon_i8mm; wasm. Unknown names are false.
bool cpu_has(const char* row);

// The quantised rows of all processors, the preferred one first, then nullptr. "scalar" is the last.
const char* const* every_isa();

// Those that this library has: all of its architecture, or fewer (kernels/rows.cmake). "scalar" is the last row everywhere.
const char* const* isa_preference();

// The quantised row to run: EDGEDEC_ISA when set, else the first of the library's that this CPU has.
// Returns nullptr when EDGEDEC_ISA names a row that is unknown, or that the library or this CPU lacks.
const char* selected_isa();

// Whether this CPU reads memory faster as several streams at a time, prefetched into the first-level cache: Intel's do. AMD's
// keep one stream, which was not compared with several; prefetching into the first level is slow on Zen 4 (quant_linear.h).
bool likes_streams();

// Whether this CPU converts fp16 numbers beside its multiplications; Intel's do both on the same ports.
bool converts_beside();

// The float row that belongs to a quantised row: scalar, avx2, avx512, neon or wasm.
const char* float_row(const char* isa);

}  // namespace edgedec
