#include "core/memory/state_book.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/model_spec.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kLost = int64_t{1} << 62;

}  // namespace

Status StateBook::check(int64_t tokens, bool chain) const {
  if (chain || tokens <= undone) return {};
  return {Code::kUsage, "a tree of " + decimal(tokens) + " tokens: recurrent states take back at most " + decimal(undone)};
}

bool StateBook::passed(int64_t start, int64_t tokens, bool chain) {
  applied = std::max(applies ? start : applied, start + tokens - undone);
  return chain && tokens > kTrailSlots;
}

int64_t StateBook::reachable(int64_t length) const {
  if (length >= applied) return length;
  return length >= checkpoint ? checkpoint : 0;
}

void StateBook::rewind(int64_t length) {
  applied = std::min(applied, length);
  if (length < checkpoint) checkpoint = 0;
}

void StateBook::lose() { applied = kLost; }

}  // namespace edgedec::engine
