// One pass: its inputs, and the buffers of a shape of passes, bound to the session once and used again.
// edgedec/backends/onnx/bound_pass.py and passes.py, for one sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "core/rows.h"
#include "core/memory/cache_book.h"
#include "core/memory/ledger.h"
#include "engine/model/exits.h"
#include "engine/model/kv_memory.h"
#include "engine/model/runtime.h"

namespace edgedec::engine {

// Everything that decides the buffers of a pass; see Fed.
struct PassShape {
  size_t tokens = 0, placed = 0, rows = 0;
  bool full = false;
  int exit = 0, warm_exit = 0;
  size_t warm = 0;
  std::vector<int> states = {};

  bool operator==(const PassShape& other) const {
    return tokens == other.tokens && placed == other.placed && rows == other.rows && full == other.full &&
           states == other.states && exit == other.exit && warm_exit == other.warm_exit && warm == other.warm;
  }
  // Tokens that go through a layer.
  size_t tokens_through(int layer) const {
    if (exit && layer >= exit) return 0;
    return warm_exit && layer >= warm_exit ? tokens + warm : tokens;
  }
};

// The inputs of a pass. `rows`: indices whose head results are wanted. The rest needs exits: `tokens` are then the last
// ones of those that `placed` has.
struct Fed {
  Span<const int32_t> tokens;
  const PlannedPass& placed;
  Span<const int> rows;
  bool full = false;
  double temperature = 1.0;
  int exit = 0;            // layers after which the pass ends, and `rows` are indices into `tokens`; 0: after all
  int warm_exit = 0;       // layers that the tokens before `tokens` went through already
  Span<const float> warm = {};  // their rows after these layers, and how many these are
  size_t warmed = 0;
  Span<const int64_t> keep = {};
  Span<const int> states = {};  // layers whose outputs to return

  PassShape shape() const {
    return {tokens.size(), placed.size(), rows.size(), full, exit, warm_exit, warmed, {states.begin(), states.end()}};
  }
};

// All that passes over one cache have in common.
struct PassSetting {
  const Runtime& runtime;
  OrtSession* session;
  const ModelSpec& spec;
  const Exits& exits;
  const KvMemory& kv;
  Ledger* ledger;
};

// Inputs and outputs of passes of one shape.
class BoundPass {
 public:
  BoundPass(const PassSetting& setting, const PassShape& shape);
  Status bind();
  Status run(const Fed& fed, HeadRows* found, LayerStates* states);
  const PassShape& shape() const { return shape_; }

 private:
  Status bind_input(const char* name, const void* data, int type, size_t width, Span<const int64_t> dims);
  Status bind_output(const char* name, void* data, int type, size_t width, Span<const int64_t> dims);
  Status value_of(const void* data, int type, size_t width, Span<const int64_t> dims, ValueOwner* value);
  Status bind_logits(float* data, size_t rows);
  Status bind_caches();
  Status bind_exits();
  Status bind_warm(int exit, Span<const float> warm);
  Status bind_keep(Span<const int64_t> keep);
  Status bind_states(LayerStates* states);

  const PassSetting& setting_;
  PassShape shape_;
  BindingOwner binding_;
  std::vector<int64_t> tokens_, positions_, parents_, rows_, length_, want_, places_;
  std::vector<float> values_, logsumexp_, entropy_, temperature_;
  std::vector<int32_t> ids_;
  float no_logits_ = 0;
  Span<const int64_t> keep_;  // that is bound
  Lease lease_;
};

// The passes over one cache, with the buffers of those that recur.
class Passes {
 public:
  explicit Passes(const PassSetting& setting) : setting_(setting), rows_(setting.ledger, "rows") {}

  // Computes a pass; keys and values go into the cache. `states`: for those of passes that return them, else null. kBackend,
  // kBadFile where logits are not numbers, kMemoryBudget.
  Status run(const Fed& fed, HeadRows* found, LayerStates* states = nullptr);
  // Ends the lease of whole rows of logits.
  void end_rows() { rows_.release(); }

 private:
  const PassSetting setting_;
  Lease rows_;  // of the most whole rows of logits that anyone asked for
  std::vector<std::unique_ptr<BoundPass>> kept_;
};

}  // namespace edgedec::engine
