#include "engine/model/kv_states.h"

#include <algorithm>

#include "core/memory/sizes.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kUnknown = int64_t{1} << 62;

}  // namespace

Status KvStates::allocate(Span<const States> kinds, Ledger* ledger) {
  if (kinds.empty()) return {};
  EDGEDEC_TRY(memory_.allocate(kinds));
  book_.undone = most_undone(kinds);
  book_.applies = std::any_of(kinds.begin(), kinds.end(), [](const States& kind) { return kind.state != 0; });
  lease_ = Lease(ledger, "state");
  return lease_.grow(memory_.bytes());
}

void KvStates::begin() {
  applied_ = book_.applied;
  covered_ = kUnknown;
}

void KvStates::done(bool keep) {
  if ((keep || due_) && book_.applied > book_.checkpoint) this->keep();
  covered_ = book_.applied;
  due_ = false;
}

void KvStates::keep() {
  memory_.keep(book_.applied);
  book_.checkpoint = book_.applied;
}

void KvStates::follow() {
  due_ = true;
  if (book_.applied >= covered_) return;
  if (book_.applied) memory_.restore(book_.applied);
  else memory_.clear();
  covered_ = book_.applied;
}

Status KvStates::write(CacheSink& sink, int64_t length) const {
  const int64_t applied = std::min(book_.applied, length);
  return memory_.write(sink, applied, length, applied < book_.applied);
}

Status KvStates::read(CacheSource& source, int64_t length) {
  covered_ = kUnknown;
  int64_t applied = 0;
  EDGEDEC_TRY(memory_.read(source, length, book_.undone, &applied));
  book_.applied = covered_ = applied;
  keep();
  return {};
}

}  // namespace edgedec::engine
