#include <cstring>

#include "encoder/encoder.h"

namespace edgedec::encoder {
namespace {

constexpr const char* kFunctions[] = {"gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "relu"};
constexpr const char* kPoolings[] = {"mean", "cls", "last"};

template <class E, size_t n>
E named(const char* const (&names)[n], const char* name) {
  static_assert(n == static_cast<size_t>(E::kCount), "a name for each");
  size_t i = 0;
  while (i < n && std::strcmp(names[i], name) != 0) ++i;
  return static_cast<E>(i);
}

}  // namespace

Function function_named(const char* name) { return named<Function>(kFunctions, name); }
Pooling pooling_named(const char* name) { return named<Pooling>(kPoolings, name); }

bool cuts(const int64_t* offsets, size_t numbers, size_t tokens) {
  if (!numbers || offsets[0] != 0 || offsets[numbers - 1] != static_cast<int64_t>(tokens)) return false;
  for (size_t i = 1; i < numbers; ++i)
    if (offsets[i] <= offsets[i - 1]) return false;
  return true;
}

}  // namespace edgedec::encoder
