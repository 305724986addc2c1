// The memory of recurrent layers: trails of the newest tokens, states, and a checkpoint of them.
// edgedec/backends/onnx/state_memory.py, for one sequence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/decode/forward.h"
#include "core/memory/cache_book.h"
#include "core/model_spec.h"
#include "engine/base/block.h"

namespace edgedec::engine {

// Names of the graph's inputs.
std::string trail_input(const States& kind);
std::string state_input(const States& kind);
constexpr const char* kAppliedInput = "applied";

// Trails and states of the kinds of a model. A checkpoint has the tail's rows and the state.
class StateMemory {
 public:
  Status allocate(Span<const States> kinds);

  Span<const States> kinds() const { return kinds_; }
  float* trail(size_t kind) const { return parts_[kind].trail; }
  float* state(size_t kind) const { return parts_[kind].state; }
  int64_t bytes() const { return bytes_; }

  // Copies rows of the trail; see KvPages::move.
  void move(const SlotMoves& moves);
  // Lets the states cover no token. Rows before the first one are zeros.
  void clear();
  // Takes the checkpoint of states that cover `applied` tokens, and goes back to it.
  void keep(int64_t applied);
  void restore(int64_t applied);

  // Name, then layers x numbers of a trail's row x numbers of a state, of each kind.
  std::string layout() const;
  // Bytes as written.
  int64_t file_bytes() const;
  // Writes states that cover `applied` tokens, and the rows of the trail up to `slots`; those of the checkpoint if `kept`.
  // Rows that nothing reads are written as zeros.
  Status write(CacheSink& sink, int64_t applied, int64_t slots, bool kept) const;
  // Fills trail and states from a file of `slots` tokens, and finds how many the states cover. kBadFile where they cannot
  // cover so many.
  Status read(CacheSource& source, int64_t slots, int64_t undone, int64_t* applied);

 private:
  struct Part {
    float *trail, *state, *kept_rows, *kept_state;
  };
  // The row of the token `slot`, which may lie before the first one, in a layer's trail.
  static float* row_of(const States& kind, float* trail, int64_t layer, int64_t slot);
  template <class Copy>
  void each_tail(int64_t applied, Copy copy);

  std::vector<States> kinds_;
  std::vector<Part> parts_;
  int64_t bytes_ = 0;
  Block block_;
};

}  // namespace edgedec::engine
