// A drafting head in ONNX Runtime: one decoder layer over the target's hidden states, with its own cache.
// edgedec/backends/onnx/head_forward.py and edgedec/bundle/head_facts.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/files.h"
#include "engine/bundle/drafter_manifest.h"
#include "core/rows.h"
#include "core/memory/cache_book.h"
#include "engine/model/kv_memory.h"
#include "engine/model/runtime.h"

namespace edgedec::engine {

constexpr int64_t kHeadTaps = 3;          // layers of the target whose outputs a head reads
constexpr int64_t kHeadContext = 1024;    // most tokens in its cache
constexpr int64_t kHeadLongestPass = 64;  // most tokens of its passes
constexpr int64_t kHeadWaiting = 128;     // most tokens whose hidden states wait until it reads them

// Sizes in elements; `table_*` say where the target's embedding table lies in its weights.
struct HeadFacts {
  int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, ids = 0, head_k = 0;
  int64_t table_offset = 0, table_tiles = 0, table_tile_bytes = 0;

  // Takes them from the facts of a manifest. kBadFile.
  static Status of(const DrafterManifest& manifest, HeadFacts* facts);
  // The head as a model of one layer, whose cache holds `context` positions.
  ModelSpec spec(int64_t context) const;
};

class HeadForward;

// A head whose weights are mapped. It reads tokens from the target's embedding table, in place.
class HeadModel {
 public:
  // `folder` has the graph and its weights, `target` the bundle of the model that it drafts for. kBadFile, kBackend.
  static Status open(const Runtime& runtime, const std::string& folder, const std::string& target, const HeadFacts& facts,
                     int64_t vocab_size, int threads, std::unique_ptr<HeadModel>* model);

  const HeadFacts& facts() const { return facts_; }
  int64_t weight_bytes() const { return weight_bytes_; }
  int threads() const { return threads_; }
  // Makes an empty cache of `capacity` positions, leased from `ledger`. Both outlive it.
  Status forward(int64_t capacity, Ledger* ledger, std::unique_ptr<HeadForward>* forward);

 private:
  friend class HeadForward;
  HeadModel() = default;

  Runtime runtime_;
  HeadFacts facts_;
  int64_t vocab_size_ = 0, weight_bytes_ = 0;
  int threads_ = 1;
  MappedFile table_;
  SessionOwner session_;
};

// One sequence over a HeadModel.
class HeadForward {
 public:
  HeadForward(const HeadModel& model, KvMemory kv, Ledger* ledger);
  Status lease();

  int64_t capacity() const { return book_.capacity(); }
  int64_t length() const { return book_.length(); }
  int64_t longest() const { return longest_; }
  Status rewind(int64_t length);

  // Runs one pass over `tokens` and appends them, as Forward::extend does. `taps` are hidden states of the target for the
  // first tokens, `states` outputs of earlier passes for the others. A token is the one that follows its hidden state.
  // `rows`: indices of the tokens to predict the next one of. `out`: the states of the next drafted tokens.
  Status step(Span<const int32_t> tokens, Span<const float> taps, Span<const float> states, Span<const int> parents,
              Span<const int> rows, HeadRows* found, Span<const float>* out);

 private:
  struct Bound {
    int64_t committed, drafted, rows;
    BindingOwner binding;
  };
  Status bound(int64_t committed, int64_t drafted, int64_t rows, const OrtIoBinding** binding);
  Status bind(int64_t committed, int64_t drafted, int64_t rows, OrtIoBinding* binding);

  const HeadModel& model_;
  KvMemory kv_;
  int64_t longest_;
  CacheBook book_;
  PlannedPass planned_;
  std::vector<float> taps_, states_, out_, values_, logsumexp_, entropy_;
  std::vector<int64_t> tokens_, positions_, parents_, rows_, length_;
  std::vector<int32_t> ids_;
  std::vector<Bound> kept_;
  Lease scratch_, buffers_;
};

}  // namespace edgedec::engine
