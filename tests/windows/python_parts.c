// Functions that packages for Windows ask of the system, and Wine 8 lacks: complex numbers of its C library, and random bytes.
// tests/windows/interpreter.py names them as they are asked for. As Microsoft's compiler hands them over, complex numbers are structs.
#include <math.h>

typedef struct {
  double real, imag;
} Wide;
typedef struct {
  float real, imag;
} Narrow;

#define EXPORT __declspec(dllexport)
#define PART(name, part)                                \
  EXPORT double edgedec_##name(Wide x) { return part; } \
  EXPORT float edgedec_##name##f(Narrow x) { return (float)(part); }
#define MAP(name, real_part, imag_part)                                             \
  static Wide name##_of(double x, double y) { return (Wide){real_part, imag_part}; } \
  EXPORT Wide edgedec_##name(Wide x) { return name##_of(x.real, x.imag); }          \
  EXPORT Narrow edgedec_##name##f(Narrow x) {                                       \
    const Wide y = name##_of(x.real, x.imag);                                       \
    return (Narrow){(float)y.real, (float)y.imag};                                  \
  }

PART(creal, x.real)
PART(cimag, x.imag)
PART(cabs, hypot(x.real, x.imag))
PART(carg, atan2(x.imag, x.real))
MAP(ccos, cos(x) * cosh(y), -sin(x) * sinh(y))
MAP(ccosh, cosh(x) * cos(y), sinh(x) * sin(y))
MAP(cexp, exp(x) * cos(y), exp(x) * sin(y))
MAP(clog, log(hypot(x, y)), atan2(y, x))
MAP(csin, sin(x) * cosh(y), cos(x) * sinh(y))
MAP(csinh, sinh(x) * cos(y), cosh(x) * sin(y))
MAP(csqrt, sqrt((hypot(x, y) + x) / 2), copysign(sqrt((hypot(x, y) - x) / 2), y))
MAP(ctan, sin(2 * x) / (cos(2 * x) + cosh(2 * y)), sinh(2 * y) / (cos(2 * x) + cosh(2 * y)))
MAP(ctanh, sinh(2 * x) / (cosh(2 * x) + cos(2 * y)), sin(2 * y) / (cosh(2 * x) + cos(2 * y)))

EXPORT Wide edgedec_cpow(Wide x, Wide y) {
  const Wide log = clog_of(x.real, x.imag);
  return cexp_of(log.real * y.real - log.imag * y.imag, log.real * y.imag + log.imag * y.real);
}
EXPORT Narrow edgedec_cpowf(Narrow x, Narrow y) {
  const Wide z = edgedec_cpow((Wide){x.real, x.imag}, (Wide){y.real, y.imag});
  return (Narrow){(float)z.real, (float)z.imag};
}

__declspec(dllimport) unsigned char __stdcall SystemFunction036(void*, unsigned long);
EXPORT int __stdcall edgedec_ProcessPrng(unsigned char* to, unsigned long long n) { return SystemFunction036(to, (unsigned long)n); }
