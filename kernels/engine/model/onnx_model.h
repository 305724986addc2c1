// A bundle of EdgeDec's own ops, loaded into ONNX Runtime: weights and session, no KV cache.
// edgedec/backends/onnx/model.py, for one sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/model_spec.h"
#include "core/memory/footprint.h"
#include "core/memory/ledger.h"
#include "core/memory/sizes.h"
#include "engine/model/exits.h"
#include "engine/model/expert_store.h"
#include "engine/model/onnx_forward.h"
#include "engine/model/runtime.h"

namespace edgedec::engine {

// Most tokens of one pass of any model.
constexpr int64_t kMaxPassTokens = 512;

// The size and kind of a KV cache that a caller asks for. 0 leaves a number to the model.
struct CacheConfig {
  int64_t capacity = 0;  // tokens; 0: the context that the model was made for, at most 4096
  KvType kv = KvType::kFp16;
  int64_t max_pass = 0;  // most tokens of one pass, which also sizes the rings of layers with a window
};

struct OpenOptions {
  int threads = 1;   // compute threads
  bool spin = true;  // they wait actively between ops, which is best when no one else needs the cores
  bool drafting = false;  // open drafting.onnx in place of model.onnx: the same passes, with exits and hidden states
  std::vector<int> taps = {};  // further layers of it whose outputs are to be had
  ModelPlace place = {};       // decides whether experts are read from the disk
};

class OnnxModel {
 public:
  // Opens `bundle`, whose manifest states `spec` and a file of weights of `listed_weights` bytes. kUsage, kBadFile or
  // kBackend when the bundle or the runtime cannot be used.
  static Status open(const Runtime& runtime, const std::string& bundle, const ModelSpec& spec, int64_t listed_weights,
                     const OpenOptions& options, std::unique_ptr<OnnxModel>* model);

  const ModelSpec& spec() const { return spec_; }
  int threads() const { return threads_; }
  const Exits& exits() const { return exits_; }
  // The store that reads experts from the disk; null where all are in memory.
  ExpertStore* experts() const { return experts_.get(); }
  // Bytes of the weights as they are mapped: every tensor by itself, in whole pages. Experts on the disk are none of them.
  int64_t weight_bytes() const { return weight_bytes_; }
  // Its facts for a memory plan. On Linux the rows of a table that the head does not share are read from the file: they are
  // none of its weights.
  ModelMemory memory() const;

  // Makes an empty KV cache and the forward over it; its memory is leased from `ledger`. The model and the ledger outlive
  // it. Forwards share the runtime's memory for passes, so only one of them runs at a time. kUsage, kNoMemory,
  // kMemoryBudget.
  Status forward(const CacheConfig& cache, Ledger* ledger, std::unique_ptr<Forward>* forward);

 private:
  OnnxModel() = default;

  Runtime runtime_;
  ModelSpec spec_;
  int threads_ = 1;
  int64_t weight_bytes_ = 0;
  Exits exits_;
  std::unique_ptr<ExpertStore> experts_;  // outlives the session
  SessionOwner session_;
};

}  // namespace edgedec::engine
