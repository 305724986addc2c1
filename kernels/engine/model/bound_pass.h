// One pass: its inputs, and the buffers of a shape of passes, bound to the session once and used again.
// edgedec/backends/onnx/bound_pass.py and passes.py, for one sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/span.h"
#include "engine/base/status.h"
#include "engine/core/model_spec.h"
#include "engine/core/rows.h"
#include "engine/memory/cache_book.h"
#include "engine/memory/ledger.h"
#include "engine/model/kv_memory.h"
#include "engine/model/runtime.h"

namespace edgedec::engine {

// Everything that decides the buffers of a pass.
struct PassShape {
  size_t tokens = 0, rows = 0;
  bool full = false;

  bool operator==(const PassShape& other) const {
    return tokens == other.tokens && rows == other.rows && full == other.full;
  }
};

// The inputs of a pass. `rows`: indices whose head results are wanted.
struct Fed {
  Span<const int32_t> tokens;
  const PlannedPass& placed;
  Span<const int> rows;
  bool full = false;
  double temperature = 1.0;

  PassShape shape() const { return {tokens.size(), rows.size(), full}; }
};

// All that passes over one cache have in common.
struct PassSetting {
  const Runtime& runtime;
  OrtSession* session;
  const ModelSpec& spec;
  const KvMemory& kv;
  Ledger* ledger;
};

// Inputs and outputs of passes of one shape.
class BoundPass {
 public:
  BoundPass(const PassSetting& setting, const PassShape& shape);
  Status bind();
  Status run(const Fed& fed, HeadRows* found);
  const PassShape& shape() const { return shape_; }

 private:
  Status bind_input(const char* name, const void* data, int type, size_t width, Span<const int64_t> dims);
  Status bind_output(const char* name, void* data, int type, size_t width, Span<const int64_t> dims);
  Status value_of(const void* data, int type, size_t width, Span<const int64_t> dims, ValueOwner* value);
  Status bind_logits(float* data, size_t rows);
  Status bind_caches();

  const PassSetting& setting_;
  PassShape shape_;
  BindingOwner binding_;
  std::vector<int64_t> tokens_, positions_, parents_, rows_, length_, want_;
  std::vector<float> values_, logsumexp_, entropy_, temperature_;
  std::vector<int32_t> ids_;
  float no_logits_ = 0;
  Lease lease_;
};

// The passes over one cache, with the buffers of those that recur.
class Passes {
 public:
  explicit Passes(const PassSetting& setting) : setting_(setting), rows_(setting.ledger, "rows") {}

  // Computes a pass; keys and values go into the cache. kBackend, kBadFile where logits are not numbers, kMemoryBudget.
  Status run(const Fed& fed, HeadRows* found);
  // Ends the lease of whole rows of logits.
  void end_rows() { rows_.release(); }

 private:
  const PassSetting setting_;
  Lease rows_;  // of the most whole rows of logits that anyone asked for
  std::vector<std::unique_ptr<BoundPass>> kept_;
};

}  // namespace edgedec::engine
