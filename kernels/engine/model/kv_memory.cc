#include "engine/model/kv_memory.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/memory/cache_book.h"
#include "core/memory/size.h"
#include "core/memory/sizes.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kWorthwhileBytes = 1 << 20;
// Slots worth releasing. Rejected drafts free fewer: a page or two per head, which the next pass rewrites.
constexpr int64_t kWorthwhileSlots = 64;
constexpr int64_t kOldestBytes = 8;  // bytes in which a file says which slot is the oldest of its rings

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
  const int64_t row = kv_row_bytes(spec.head_dim, kv) / 2, windowed = spec.n_window_layers;
  kv_ = kv;
  kept_ = ring_kept(spec);
  windowed_ = windowed != 0;
  Status made = whole_.allocate({spec.n_layers - windowed, 2, spec.n_kv_heads, capacity, row});
  if (made.ok() && windowed_) made = rings_.allocate({windowed, 2, spec.n_kv_heads, ring ? ring : capacity, row});
  if (!made.ok())
    return {Code::kNoMemory,
            "no memory for a context of " + decimal(capacity) + " tokens (" +
                decimal(kv_bytes(spec, capacity, kv, ring) >> 20) + " MiB)",
            "use a smaller context"};
  lease_ = Lease(ledger, "kv_cache");
  return {};
}

void KvMemory::move(const SlotMoves& moves) {
  if (moves.from.empty()) return;
  whole_.move(moves.from, moves.to);
  if (windowed_) rings_.move(moves.from, moves.to);
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
  const std::string whole = std::string(kv_name(kv_)) + " " + sizes_text(whole_);
  return windowed_ ? whole + " " + sizes_text(rings_) + "x" + decimal(kept_) : whole;
}

int64_t KvMemory::bytes(int64_t slots) const {
  const int64_t whole = whole_.slot_bytes() * slots;
  return windowed_ && slots ? whole + kOldestBytes + rings_.slot_bytes() * std::min(slots, kept_) : whole;
}

Status KvMemory::write(CacheSink& sink, int64_t slots, int64_t oldest) const {
  EDGEDEC_TRY(write_heads(sink, whole_, 0, 0, slots));
  if (!windowed_ || !slots) return {};
  const int64_t first = std::max<int64_t>(slots - kept_, 0), lost = std::max<int64_t>(oldest - first, 0);
  uint8_t said[kOldestBytes];
  for (int at = 0; at < kOldestBytes; ++at) said[at] = static_cast<uint8_t>((first + lost) >> (8 * at));
  EDGEDEC_TRY(sink.write(said, sizeof said));
  return write_heads(sink, rings_, lost, first + lost, slots);
}

Status KvMemory::read(CacheSource& source, int64_t slots, int64_t* oldest) {
  *oldest = 0;
  EDGEDEC_TRY(read_heads(source, whole_, 0, slots));
  if (!windowed_ || !slots) return {};
  uint8_t said[kOldestBytes];
  EDGEDEC_TRY(source.read(said, sizeof said));
  uint64_t found = 0;
  for (int at = 0; at < kOldestBytes; ++at) found |= static_cast<uint64_t>(said[at]) << (8 * at);
  const int64_t first = std::max<int64_t>(slots - kept_, 0);
  if (found < static_cast<uint64_t>(first) || found > static_cast<uint64_t>(slots))
    return {Code::kBadFile,
            "a saved cache of " + decimal(slots) + " tokens cannot begin with token " + decimal(found)};
  *oldest = static_cast<int64_t>(found);
  return read_heads(source, rings_, first, slots);
}

}  // namespace edgedec::engine
