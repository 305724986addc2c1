// The packed weight layout, one for all instruction sets. packing/layout.py defines it in NumPy.
//
// A tile holds 16 output columns; along K it is a run of records of 64 or 256 inputs. Inside a group of 32 inputs, step
// s holds inputs 4s..4s+3 of all 16 columns in 64 bytes (column * 4 + input): one register of AVX-512 VNNI, two of
// AVX2, one tile row of AMX, four of NEON. In float formats a record is one input: the bits of its 16 columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "simd/inline.h"

namespace edgedec {

constexpr int kTile = 16;   // output columns of a tile
constexpr int kGroup = 32;  // inputs that share an activation scale
constexpr int kSteps = 8;   // steps of four inputs in a group

// Activations of a group whose peak is below 2^-119 quantise to zeros: 127 / peak would overflow for the smallest. A
// group that holds infinity or NaN gets zeros and a NaN scale, so that all results computed from it are NaN in every
// row.
constexpr float kLeastPeak = 0x1p-119f;

enum class Scales {
  kHalf,      // fp16 per group
  kExponent,  // a byte e per group, the scale 2^(e - 128): MXFP4
  kSixBit,    // fp16 per record times a 6-bit integer per group (and minima likewise): Q4_K, Q5_K
  kSignedQ6,  // fp16 per record times an int8 per 16 inputs: Q6_K
  kBiasedQ3,  // fp16 per record times (a 6-bit integer - 32) per 16 inputs: Q3_K
  kNibbles,   // fp16 per record times a 4-bit integer per 16 inputs (and minima likewise): Q2_K
  kRecord,    // fp16 per record: TQ2_0
  kSigned,    // fp16 per record times an int8 per group: IQ4, IQ3X, IQ3S
  kOdd,       // fp16 per record times 2n + 1 per 16 inputs, n of 4 bits: IQ2, IQ1
  kFloat8,    // fp32 per record times a float of 7 bits per 16 inputs: NVFP4
};

// Offsets are in bytes from the start of a record. Quants are stored unsigned; the value is (q - kOffset).
struct Q4_0 {
  static constexpr const char* kName = "q4_0";
  static constexpr int kRecord = 64, kBytes = 576, kBits = 4, kOffset = 8, kLo = 64, kHi = 0;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kHalf;
};
struct Q4_1 {
  static constexpr const char* kName = "q4_1";
  static constexpr int kRecord = 64, kBytes = 640, kBits = 4, kOffset = 0, kLo = 128, kHi = 0;
  static constexpr bool kMin = true;
  static constexpr Scales kScales = Scales::kHalf;
};
struct Q5_0 {
  static constexpr const char* kName = "q5_0";
  static constexpr int kRecord = 64, kBytes = 704, kBits = 5, kOffset = 16, kLo = 64, kHi = 576;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kHalf;
};
struct Q5_1 {
  static constexpr const char* kName = "q5_1";
  static constexpr int kRecord = 64, kBytes = 768, kBits = 5, kOffset = 0, kLo = 128, kHi = 640;
  static constexpr bool kMin = true;
  static constexpr Scales kScales = Scales::kHalf;
};
struct Q8_0 {
  static constexpr const char* kName = "q8_0";
  static constexpr int kRecord = 64, kBytes = 1088, kBits = 8, kOffset = 128, kLo = 64, kHi = 0;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kHalf;
};
struct Q4_K {
  static constexpr const char* kName = "q4_k";
  static constexpr int kRecord = 256, kBytes = 2304, kBits = 4, kOffset = 0, kLo = 256, kHi = 0;
  static constexpr bool kMin = true;
  static constexpr Scales kScales = Scales::kSixBit;
};
struct Q5_K {
  static constexpr const char* kName = "q5_k";
  static constexpr int kRecord = 256, kBytes = 2816, kBits = 5, kOffset = 0, kLo = 256, kHi = 2304;
  static constexpr bool kMin = true;
  static constexpr Scales kScales = Scales::kSixBit;
};
struct Q6_K {
  static constexpr const char* kName = "q6_k";
  static constexpr int kRecord = 256, kBytes = 3360, kBits = 6, kOffset = 32, kLo = 288, kHi = 2336;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kSignedQ6;
};

struct Q2_K {
  static constexpr const char* kName = "q2_k";
  static constexpr int kRecord = 256, kBytes = 1344, kBits = 2, kOffset = 0, kLo = 320, kHi = 0;
  static constexpr bool kMin = true;
  static constexpr Scales kScales = Scales::kNibbles;
};
struct Q3_K {
  static constexpr const char* kName = "q3_k";
  static constexpr int kRecord = 256, kBytes = 1760, kBits = 3, kOffset = 4, kLo = 224, kHi = 1248;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kBiasedQ3;
};

// Four bits that are an index into kValues: the quant is kValues[index] + kOffset.
struct IQ4_NL {
  static constexpr const char* kName = "iq4_nl";
  static constexpr int kRecord = 64, kBytes = 576, kBits = 4, kOffset = 128, kLo = 64, kHi = 0;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kHalf;
  static constexpr int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
};
struct MXFP4 {  // values doubled, scales halved, as in ggml
  static constexpr const char* kName = "mxfp4";
  static constexpr int kRecord = 64, kBytes = 544, kBits = 4, kOffset = 12, kLo = 32, kHi = 0;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kExponent;
  static constexpr int8_t kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
};

struct TQ2_0 {
  static constexpr const char* kName = "tq2_0";
  static constexpr int kRecord = 256, kBytes = 1056, kBits = 2, kOffset = 1, kLo = 32, kHi = 0;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kRecord;
};

// Weights of codebooks, as packing/recode.py makes them of the IQ types of GGUF files: bits are an index into kValues, and
// fp16 scales are times kUnit. IQ4: IQ4_XS; IQ3X: IQ3_XXS; IQ3S: IQ3_S; IQ2: IQ2_XXS, IQ2_XS and IQ2_S; IQ1: IQ1_S and IQ1_M.
struct IQ4 {
  static constexpr const char* kName = "iq4";
  static constexpr int kRecord = 256, kBytes = 2208, kBits = 4, kOffset = 128, kLo = 160, kHi = 0;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kSigned;
  static constexpr float kUnit = 1.0f;
  static constexpr int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
};
struct IQ3X {
  static constexpr const char* kName = "iq3x";
  static constexpr int kRecord = 256, kBytes = 2208, kBits = 4, kOffset = 62, kLo = 160, kHi = 0;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kSigned;
  static constexpr float kUnit = 0.25f;
  static constexpr int8_t kValues[16] = {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62};
};
struct IQ3S {
  static constexpr const char* kName = "iq3s";
  static constexpr int kRecord = 256, kBytes = 2208, kBits = 4, kOffset = 15, kLo = 160, kHi = 0;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kSigned;
  static constexpr float kUnit = 1.0f;
  static constexpr int8_t kValues[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
};
struct IQ2 {
  static constexpr const char* kName = "iq2";
  static constexpr int kRecord = 256, kBytes = 1696, kBits = 3, kOffset = 64, kLo = 160, kHi = 1184;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kOdd;
  static constexpr float kUnit = 0.125f;
  static constexpr int8_t kValues[16] = {8, 25, 43, 0, -8, -25, -43, 0};
};
struct IQ1 {
  static constexpr const char* kName = "iq1";
  static constexpr int kRecord = 256, kBytes = 1696, kBits = 3, kOffset = 16, kLo = 160, kHi = 1184;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kOdd;
  static constexpr float kUnit = 0.125f;
  static constexpr int8_t kValues[16] = {-7, 1, 9, 0, -9, -1, 7, 0};
};

// The byte of 16 inputs, moved up by 7 bits, is fp16 with too low an exponent; kUnit corrects it.
struct NVFP4 {
  static constexpr const char* kName = "nvfp4";
  static constexpr int kRecord = 256, kBytes = 2368, kBits = 4, kOffset = 16, kLo = 320, kHi = 0;
  static constexpr bool kMin = false;
  static constexpr Scales kScales = Scales::kFloat8;
  static constexpr float kUnit = 128.0f;
  static constexpr int8_t kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
};

// Whether scales of halves are floats.
template <class F>
constexpr bool kFloatScales = F::kScales == Scales::kFloat8;

// Whether scales (and minima) belong to halves of a group: 16 inputs. They are integers, or floats of four bits of fraction.
template <class F>
constexpr bool kHalves =
    F::kScales == Scales::kSignedQ6 || F::kScales == Scales::kBiasedQ3 || F::kScales == Scales::kNibbles ||
    F::kScales == Scales::kOdd || kFloatScales<F>;

// Whether stored bits are an index into kValues, and the greatest unsigned quant.
template <class F, class = void>
struct Codebook {
  static constexpr bool kThere = false;
  static constexpr int kMax = (1 << F::kBits) - 1;
};
template <class F>
struct Codebook<F, std::void_t<decltype(F::kValues)>> {
  static constexpr bool kThere = true;
  static constexpr int kMax = F::kOffset + *std::max_element(F::kValues, F::kValues + 16);
};
template <class F>
constexpr bool kLookup = Codebook<F>::kThere;
template <class F>
constexpr int kMaxQuant = Codebook<F>::kMax;

// Plain floats, whose products are computed in float: see quant_linear/float_impl.h.
struct F16 {
  static constexpr const char* kName = "f16";
  static constexpr int kRecord = 1, kBytes = 32;
};
struct BF16 {
  static constexpr const char* kName = "bf16";
  static constexpr int kRecord = 1, kBytes = 32;
};
struct F32 {
  static constexpr const char* kName = "f32";
  static constexpr int kRecord = 1, kBytes = 64;
};

// The two lists of formats. Code that exists once per format expands them in this order.
#define EDGEDEC_INT_FORMATS(X)                                                                           \
  X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q4_K) X(Q5_K) X(Q6_K) X(Q2_K) X(Q3_K) X(IQ4_NL) X(MXFP4)     \
  X(TQ2_0) X(IQ4) X(IQ3X) X(IQ3S) X(IQ2) X(IQ1) X(NVFP4)
#define EDGEDEC_FLOAT_FORMATS(X) X(F16) X(BF16) X(F32)

enum class FormatId {
#define X(F) k##F,
  EDGEDEC_INT_FORMATS(X) EDGEDEC_FLOAT_FORMATS(X)
#undef X
      kCount
};

// Whether the weights are floats. Activations are then not quantised, and a second int8 term changes nothing.
static inline bool is_float(FormatId id) { return id >= FormatId::kF16 && id < FormatId::kCount; }

struct FormatInfo {
  const char* name;
  int record, bytes;
};

static inline const FormatInfo* format_info(FormatId id) {
  static const FormatInfo table[] = {
#define X(F) {F::kName, F::kRecord, F::kBytes},
      EDGEDEC_INT_FORMATS(X) EDGEDEC_FLOAT_FORMATS(X)
#undef X
  };
  return id < FormatId::kCount ? &table[static_cast<int>(id)] : nullptr;
}

// FormatId::kCount when the name is unknown.
static inline FormatId format_by_name(const char* name) {
  for (int i = 0; i < static_cast<int>(FormatId::kCount); ++i)
    if (std::strcmp(format_info(static_cast<FormatId>(i))->name, name) == 0) return static_cast<FormatId>(i);
  return FormatId::kCount;
}

// A packed weight [rows, cols]; data is mapped from the bundle and never copied.
struct Weight {
  FormatId format = FormatId::kCount;
  int rows = 0, cols = 0;
  const uint8_t* data = nullptr;

  EDGEDEC_INLINE int tiles() const { return (rows + kTile - 1) / kTile; }
  EDGEDEC_INLINE int records() const { return (cols + format_info(format)->record - 1) / format_info(format)->record; }
  EDGEDEC_INLINE size_t tile_bytes() const { return static_cast<size_t>(records()) * format_info(format)->bytes; }
  EDGEDEC_INLINE size_t bytes() const { return tile_bytes() * tiles(); }
};

}  // namespace edgedec
