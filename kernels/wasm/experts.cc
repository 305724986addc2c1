// Stores of experts for edgedec.wasm, which has no disk: none can be opened, so experts lie in memory, and no pass asks one.
#include <cstdlib>

#include "experts/store.h"

namespace edgedec::experts {

size_t Store::slots() const { std::abort(); }
bool Store::hold(int, int*, int, int*) { std::abort(); }
const uint8_t* Store::wait(int, int*) { std::abort(); }
bool Store::ready(int) const { std::abort(); }
void Store::release(const int*, int) { std::abort(); }

}  // namespace edgedec::experts
