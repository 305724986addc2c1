#include "common/isa.h"

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "common/os/features.h"

namespace edgedec {
namespace {

#if defined(__x86_64__)

struct Features {
  bool avx2 = false, avx_vnni = false, avx512 = false, avx512_vnni = false, amx = false;
};

unsigned long long xcr0() {
  unsigned lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (static_cast<unsigned long long>(hi) << 32) | lo;
}

Features detect() {
  Features f;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return f;  // OSXSAVE
  const bool fma = c >> 12 & 1, f16c = c >> 29 & 1, avx = c >> 28 & 1;
  const unsigned long long enabled = xcr0();
  if ((enabled & 0x6) != 0x6 || !avx || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  f.avx2 = (b >> 5 & 1) && fma && f16c;
  const bool f512 = b >> 16 & 1, dq = b >> 17 & 1, bw = b >> 30 & 1, vl = b >> 31 & 1;
  const bool vnni512 = c >> 11 & 1, tile = d >> 24 & 1, tile_int8 = d >> 25 & 1;
  f.avx512 = f.avx2 && (enabled & 0xe0) == 0xe0 && f512 && dq && bw && vl;
  f.avx512_vnni = f.avx512 && vnni512;
  f.amx = f.avx512_vnni && tile && tile_int8 && (enabled & 0x60000) == 0x60000 && os::may_use_tiles();
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) f.avx_vnni = f.avx2 && (a >> 4 & 1);
  return f;
}

bool made_by_intel() {
  unsigned a, b, c, d;
  return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx && c == signature_INTEL_ecx;
}

const Features& features() {
  static const Features f = detect();
  return f;
}

#endif

bool same(const char* a, const char* b) { return std::strcmp(a, b) == 0; }

}  // namespace

bool cpu_has(const char* row) {
#ifdef EDGEDEC_EMULATE_AVX512
  // This build models these instructions, so every CPU can run them.
  if (same(row, "avx512") || same(row, "avx512_vnni") || same(row, "amx") || same(row, "wasm"))
    return true;
#endif
  if (same(row, "scalar")) return true;
#if defined(__x86_64__)
  const Features& f = features();
  if (same(row, "avx2")) return f.avx2;
  if (same(row, "avx_vnni")) return f.avx_vnni;
  if (same(row, "avx512")) return f.avx512;
  if (same(row, "avx512_vnni")) return f.avx512_vnni;
  if (same(row, "amx")) return f.amx;
#elif defined(__aarch64__)
  if (same(row, "neon")) return true;  // every 64-bit Arm has it
  if (same(row, "neon_dotprod")) return os::arm_features().dotprod;
  if (same(row, "neon_i8mm")) return os::arm_features().dotprod && os::arm_features().i8mm;
#elif defined(__wasm_simd128__)
  if (same(row, "wasm")) return true;
#endif
  return false;
}

const char* const* every_isa() {
  static const char* const order[] = {
#define ROW(name) #name,
#define EDGEDEC_EVERY_ROW
#include "quant_linear/rows.inc"
#undef EDGEDEC_EVERY_ROW
#undef ROW
      nullptr};
  return order;
}

// The table from which the rows are compiled, so a row that a build lacks is not listed.
const char* const* isa_preference() {
  static const char* const order[] = {
#define ROW(name) #name,
#include "quant_linear/rows.inc"
#undef ROW
      nullptr};
  return order;
}

const char* selected_isa() {
  const char* forced = std::getenv("EDGEDEC_ISA");
  const bool any = !forced || !*forced;
  for (const char* const* row = isa_preference(); *row; ++row)
    if ((any || same(forced, *row)) && cpu_has(*row)) return *row;
  return nullptr;
}

namespace {

bool intel() {
#if defined(EDGEDEC_EMULATE_AVX512)
  return true;  // so that tests on any CPU run its code
#elif defined(__x86_64__)
  static const bool found = made_by_intel();
  return found;
#else
  return false;
#endif
}

}  // namespace

bool likes_streams() { return intel(); }
bool converts_beside() { return !intel(); }

const char* float_row(const char* isa) {
  if (same(isa, "amx") || same(isa, "avx512_vnni")) return "avx512";
  if (same(isa, "avx_vnni") || same(isa, "avx2")) return "avx2";
  if (same(isa, "neon_i8mm") || same(isa, "neon_dotprod")) return "neon";
  return same(isa, "wasm") ? "wasm" : "scalar";
}

}  // namespace edgedec
