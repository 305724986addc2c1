#include "engine/model/kv_memory.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/memory/cache_book.h"
#include "core/memory/size.h"
#include "core/memory/sizes.h"
#include "engine/model/whole_bytes.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kWorthwhileBytes = 1 << 20;
// Slots worth releasing. Rejected drafts free fewer: a page or two per head, which the next pass rewrites.
constexpr int64_t kWorthwhileSlots = 64;

std::string sizes_text(const KvPages& part) {
  std::string text;
  for (int at = 0; at < 3; ++at) text += decimal(part.shape()[at]) + "x";
  return text + decimal(part.row_bytes());
}

Status write_zeros(CacheSink& sink, int64_t size) {
  static constexpr uint8_t kZeros[4096] = {};
  for (; size > 0; size -= static_cast<int64_t>(sizeof kZeros))
    EDGEDEC_TRY(sink.write(kZeros, static_cast<size_t>(std::min<int64_t>(size, sizeof kZeros))));
  return {};
}

Status write_heads(CacheSink& sink, const KvPages& part, int64_t lost, int64_t first, int64_t end) {
  for (int64_t head = 0; head < part.heads(); ++head) {
    const auto [straight, round] = part.head(head, first, end);
    EDGEDEC_TRY(write_zeros(sink, lost * part.row_bytes()));
    if (!straight.empty()) EDGEDEC_TRY(sink.write(straight.data(), straight.size()));
    if (!round.empty()) EDGEDEC_TRY(sink.write(round.data(), round.size()));
  }
  return {};
}

Status read_heads(CacheSource& source, const KvPages& part, int64_t first, int64_t end) {
  for (int64_t head = 0; head < part.heads(); ++head) {
    const auto [straight, round] = part.head(head, first, end);
    if (!straight.empty()) EDGEDEC_TRY(source.read(straight.data(), straight.size()));
    if (!round.empty()) EDGEDEC_TRY(source.read(round.data(), round.size()));
  }
  return {};
}

}  // namespace

Status KvMemory::allocate(const ModelSpec& spec, int64_t capacity, KvType kv, int64_t ring, Ledger* ledger) {
  const Keys rings = ring_keys(spec);
  const auto pages = [kv](const Keys& keys, int64_t slots, KvPages* made) {
    return made->allocate({keys.layers, 2, keys.kv_heads, slots, kv_row_bytes(keys.head_dim, kv) / 2});
  };
  kv_ = kv;
  kept_ = ring_kept(spec);
  windowed_ = rings.window != 0;
  Status made = pages(whole_keys(spec), capacity, &whole_);
  if (made.ok() && windowed_) made = pages(rings, ring ? ring : capacity, &rings_);
  if (!made.ok())
    return {Code::kNoMemory,
            "no memory for a context of " + decimal(capacity) + " tokens (" +
                decimal(kv_bytes(spec, capacity, kv, ring) >> 20) + " MiB)",
            "use a smaller context"};
  lease_ = Lease(ledger, "kv_cache");
  return states_.allocate(spec.states, ledger);
}

void KvMemory::move(const SlotMoves& moves) {
  if (moves.from.empty()) return;
  whole_.move(moves.from, moves.to);
  if (windowed_) rings_.move(moves.from, moves.to);
  states_.memory().move(moves);
}

bool KvMemory::release(int64_t length, int64_t reached) {
  const auto freed = [&](const KvPages& part) {
    return std::max<int64_t>(std::min(reached, part.rows()) - length, 0) * part.slot_bytes();
  };
  const int64_t slots = reached - length, bytes = freed(whole_) + (windowed_ ? freed(rings_) : 0);
  const bool few = slots <= kWorthwhileSlots || bytes < kWorthwhileBytes;
  if (!slots || (few && length)) return false;
  whole_.give_back(length);
  if (windowed_) rings_.give_back(length);
  if (!length) lease_.release();
  return true;
}

std::string KvMemory::layout() const {
  const std::string whole = std::string(kv_format(kv_)) + " " + sizes_text(whole_);
  return (windowed_ ? whole + " " + sizes_text(rings_) + "x" + decimal(kept_) : whole) + states_.memory().layout();
}

int64_t KvMemory::bytes(int64_t slots) const {
  const int64_t rings = windowed_ && slots ? kWholeBytes + rings_.slot_bytes() * std::min(slots, kept_) : 0;
  return whole_.slot_bytes() * slots + rings + (states_.any() && slots ? states_.memory().file_bytes() : 0);
}

Status KvMemory::write(CacheSink& sink, int64_t slots, int64_t oldest) const {
  EDGEDEC_TRY(write_heads(sink, whole_, 0, 0, slots));
  if (windowed_ && slots) EDGEDEC_TRY(write_rings(sink, slots, oldest));
  return states_.any() && slots ? states_.write(sink, slots) : Status();
}

Status KvMemory::write_rings(CacheSink& sink, int64_t slots, int64_t oldest) const {
  const int64_t first = std::max<int64_t>(slots - kept_, 0), lost = std::max<int64_t>(oldest - first, 0);
  EDGEDEC_TRY(write_whole(sink, first + lost));
  return write_heads(sink, rings_, lost, first + lost, slots);
}

Status KvMemory::read(CacheSource& source, int64_t slots, int64_t* oldest) {
  *oldest = 0;
  EDGEDEC_TRY(read_heads(source, whole_, 0, slots));
  if (windowed_ && slots) EDGEDEC_TRY(read_rings(source, slots, oldest));
  return states_.any() && slots ? states_.read(source, slots) : Status();
}

Status KvMemory::read_rings(CacheSource& source, int64_t slots, int64_t* oldest) {
  uint64_t found = 0;
  EDGEDEC_TRY(read_whole(source, &found));
  const int64_t first = std::max<int64_t>(slots - kept_, 0);
  if (found < static_cast<uint64_t>(first) || found > static_cast<uint64_t>(slots))
    return {Code::kBadFile,
            "a saved cache of " + decimal(slots) + " tokens cannot begin with token " + decimal(found)};
  *oldest = static_cast<int64_t>(found);
  return read_heads(source, rings_, first, slots);
}

}  // namespace edgedec::engine
