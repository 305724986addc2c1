#include "engine/model/state_memory.h"

#include <string.h>

#include <algorithm>

#include "core/base/format.h"
#include "core/memory/size.h"
#include "core/memory/sizes.h"
#include "engine/model/whole_bytes.h"

namespace edgedec::engine {

std::string trail_input(const States& kind) { return std::string(kind.name) + "_trail"; }
std::string state_input(const States& kind) { return std::string(kind.name) + "_state"; }

Status StateMemory::allocate(Span<const States> kinds) {
  kinds_.assign(kinds.begin(), kinds.end());
  bytes_ = state_bytes(kinds);
  EDGEDEC_TRY(block_.allocate(static_cast<size_t>(bytes_), "recurrent states"));
  auto* at = reinterpret_cast<float*>(block_.data());
  const auto take = [&at](int64_t numbers) {
    float* found = at;
    at += numbers;
    return found;
  };
  for (const States& kind : kinds_) {
    const int64_t rows = kind.layers * kind.row, states = kind.layers * kind.state;
    parts_.push_back({take(rows * kTrailSlots), take(states), take(rows * kind.tail), take(states)});
  }
  return {};
}

float* StateMemory::row_of(const States& kind, float* trail, int64_t layer, int64_t slot) {
  return trail + (layer * kTrailSlots + (slot + kTrailSlots) % kTrailSlots) * kind.row;
}

void StateMemory::move(const SlotMoves& moves) {
  for (size_t at = 0; at < kinds_.size(); ++at)
    for (int64_t layer = 0; layer < kinds_[at].layers; ++layer)
      for (size_t one = 0; one < moves.from.size(); ++one)
        std::copy_n(row_of(kinds_[at], parts_[at].trail, layer, moves.from[one]), kinds_[at].row,
                    row_of(kinds_[at], parts_[at].trail, layer, moves.to[one]));
}

void StateMemory::clear() {
  for (size_t at = 0; at < kinds_.size(); ++at) {
    std::fill_n(parts_[at].trail, kinds_[at].layers * kTrailSlots * kinds_[at].row, 0.0f);
    std::fill_n(parts_[at].state, kinds_[at].layers * kinds_[at].state, 0.0f);
  }
}

// Calls `copy(kind, row of the trail, row of the checkpoint)` for the rows that the token behind `applied` others reads.
template <class Copy>
void StateMemory::each_tail(int64_t applied, Copy copy) {
  for (size_t at = 0; at < kinds_.size(); ++at) {
    const States& kind = kinds_[at];
    for (int64_t layer = 0; layer < kind.layers; ++layer)
      for (int64_t row = 0; row < kind.tail; ++row)
        copy(kind, row_of(kind, parts_[at].trail, layer, applied - kind.tail + row),
             parts_[at].kept_rows + (layer * kind.tail + row) * kind.row);
  }
}

void StateMemory::keep(int64_t applied) {
  for (size_t at = 0; at < kinds_.size(); ++at)
    std::copy_n(parts_[at].state, kinds_[at].layers * kinds_[at].state, parts_[at].kept_state);
  each_tail(applied, [](const States& kind, const float* row, float* kept) { std::copy_n(row, kind.row, kept); });
}

void StateMemory::restore(int64_t applied) {
  for (size_t at = 0; at < kinds_.size(); ++at)
    std::copy_n(parts_[at].kept_state, kinds_[at].layers * kinds_[at].state, parts_[at].state);
  each_tail(applied, [](const States& kind, float* row, const float* kept) { std::copy_n(kept, kind.row, row); });
}

std::string StateMemory::layout() const {
  std::string text;
  for (const States& kind : kinds_)
    text += " " + std::string(kind.name) + " " + decimal(kind.layers) + "x" + decimal(kind.row) + "x" + decimal(kind.state);
  return text;
}

int64_t StateMemory::file_bytes() const {
  Size total = kWholeBytes;
  for (const States& kind : kinds_)
    total = total + Size(4) * kind.layers * (Size(kTrailSlots) * kind.row + kind.state);
  return total.count();
}

Status StateMemory::write(CacheSink& sink, int64_t applied, int64_t slots, bool kept) const {
  EDGEDEC_TRY(write_whole(sink, applied));
  std::vector<float> rows;
  for (size_t at = 0; at < kinds_.size(); ++at) {
    const States& kind = kinds_[at];
    const Part& part = parts_[at];
    for (int64_t layer = 0; layer < kind.layers; ++layer) {
      rows.assign(static_cast<size_t>(kTrailSlots * kind.row), 0.0f);
      for (int64_t slot = applied - kind.tail; slot < slots; ++slot) {
        const float* from = kept && slot < applied ? part.kept_rows + (layer * kind.tail + slot - applied + kind.tail) * kind.row
                                                   : row_of(kind, part.trail, layer, slot);
        std::copy_n(from, kind.row, row_of(kind, rows.data(), 0, slot));
      }
      const float* state = (kept ? part.kept_state : part.state) + layer * kind.state;
      EDGEDEC_TRY(sink.write(rows.data(), rows.size() * sizeof(float)));
      if (kind.state) EDGEDEC_TRY(sink.write(state, static_cast<size_t>(kind.state) * sizeof(float)));
    }
  }
  return {};
}

Status StateMemory::read(CacheSource& source, int64_t slots, int64_t undone, int64_t* applied) {
  uint64_t found = 0;
  EDGEDEC_TRY(read_whole(source, &found));
  if (found < static_cast<uint64_t>(std::max<int64_t>(slots - undone, 0)) || found > static_cast<uint64_t>(slots))
    return {Code::kBadFile, "saved states of " + decimal(slots) + " tokens cannot cover " + decimal(found)};
  for (size_t at = 0; at < kinds_.size(); ++at) {
    const States& kind = kinds_[at];
    for (int64_t layer = 0; layer < kind.layers; ++layer) {
      const size_t rows = static_cast<size_t>(kTrailSlots * kind.row) * sizeof(float);
      EDGEDEC_TRY(source.read(row_of(kind, parts_[at].trail, layer, 0), rows));
      const size_t state = static_cast<size_t>(kind.state) * sizeof(float);
      if (state) EDGEDEC_TRY(source.read(parts_[at].state + layer * kind.state, state));
    }
  }
  *applied = static_cast<int64_t>(found);
  return {};
}

}  // namespace edgedec::engine
