// WebAssembly's intrinsics: the compiler's, or SIMDe's on other machines (the emulated test library).
#pragma once

#ifdef EDGEDEC_EMULATE_AVX512
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/wasm/simd128.h>
// Constants of every lane, which SIMDe lacks.
#define wasm_f32x4_const_splat wasm_f32x4_splat
#define wasm_f64x2_const_splat wasm_f64x2_splat
#define wasm_i64x2_const_splat wasm_i64x2_splat
#define wasm_i32x4_const_splat wasm_i32x4_splat
#define wasm_i16x8_const_splat wasm_i16x8_splat
#define wasm_i8x16_const_splat wasm_i8x16_splat
#else
#include <wasm_simd128.h>
#endif
