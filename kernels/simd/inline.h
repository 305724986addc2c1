// EDGEDEC_INLINE: for every function of a header that several instruction sets include.
//
// Such a header is compiled once per instruction set. A function with external linkage could be emitted with AVX-512
// instructions and then be the one copy that the linker keeps, so everything there is static or always inlined.
#pragma once

#define EDGEDEC_INLINE inline __attribute__((always_inline))

// Keeps the compiler from spreading the address in a pointer over many registers, of which it has few.
#define EDGEDEC_IN_REGISTER(pointer) __asm__("" : "+r"(pointer))
