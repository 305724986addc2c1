// Prints the quantised rows that this processor can run, the preferred one first, and whether it likes_streams(): for
// kernels/rows.cmake, which compiles and runs it.
#include <cstdio>

#include "common/isa.cc"

int main() {
  for (const char* const* row = edgedec::every_isa(); *row; ++row)
    if (edgedec::cpu_has(*row)) std::printf("%s;", *row);
  std::printf("%d", edgedec::likes_streams());
}
