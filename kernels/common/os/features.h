// Instructions that the system has to be asked about; all in this header, as a program of the build asks too.
#pragma once

#if defined(__linux__)
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(_WIN32)
extern "C" __declspec(dllimport) int __stdcall IsProcessorFeaturePresent(unsigned long);
#endif

namespace edgedec::os {

// Whether this process may use tile registers. Linux gives them on request only (arch_prctl ARCH_REQ_XCOMP_PERM, feature 18).
inline bool may_use_tiles() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kArchReqXcompPerm = 0x1023, kXtileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXtileData) == 0;
#else
  return false;
#endif
}

// Instructions of 64-bit Arm: dot products of bytes, products of matrices of bytes.
struct ArmFeatures {
  bool dotprod, i8mm;
};

inline ArmFeatures arm_features() {
#if defined(__linux__)
  // Bits of asm/hwcap.h, by value: older C libraries do not name all of them.
  constexpr unsigned long kHwcap = 16, kHwcap2 = 26;
  return {(getauxval(kHwcap) >> 20 & 1) != 0, (getauxval(kHwcap2) >> 13 & 1) != 0};
#elif defined(__APPLE__)
  const auto has = [](const char* name) {
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
  };
  return {has("hw.optional.arm.FEAT_DotProd"), has("hw.optional.arm.FEAT_I8MM")};
#elif defined(_WIN32)
  constexpr unsigned long kDotprod = 43, kI8mm = 66;  // PF_ARM_V82_..., by value: older headers do not name the second
  return {IsProcessorFeaturePresent(kDotprod) != 0, IsProcessorFeaturePresent(kI8mm) != 0};
#else
  return {false, false};
#endif
}

}  // namespace edgedec::os
