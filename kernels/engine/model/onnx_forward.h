// One sequence over an OnnxModel, with a KV cache of its own: edgedec/backends/onnx/forward.py and kv_forward.py, with
// peeked.py, without eviction and shared prefixes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/memory/cache_book.h"
#include "core/memory/sizes.h"
#include "engine/model/bound_pass.h"
#include "engine/model/expert_store.h"
#include "core/decode/forward.h"
#include "engine/model/kv_memory.h"

namespace edgedec::engine {

// OnnxModel::forward makes it. The model and the ledger outlive it.
class OnnxForward : public Forward {
 public:
  OnnxForward(const Runtime& runtime, OrtSession* session, const ModelSpec& spec, const Exits& exits, int64_t max_pass,
              Ledger* ledger, KvMemory kv, Lease scratch, const ExpertStore* experts = nullptr);

  const ModelSpec& spec() const override { return setting_.spec; }
  int64_t max_pass() const override { return max_pass_; }
  int64_t capacity() const override { return book_.capacity(); }
  int64_t length() const override { return book_.length(); }
  int64_t most_undone() const override { return engine::most_undone(spec().states); }
  Status extend(Span<const int32_t> tokens, Span<const int> parents, const Rows& rows, HeadRows* found) override;
  void free_logits(HeadRows* found) override;
  Span<const int> exits() const override { return setting_.exits.exits; }
  Span<const int> taps() const override { return setting_.exits.taps; }
  std::vector<LentKeys> lent() const override;
  const PassReads* reads() const override { return experts_ ? &reads_ : nullptr; }
  Status peek(Span<const int32_t> tokens, LayerSubset layers, const Rows& rows, HeadRows* found) override;
  Span<const int32_t> peeked() const override { return peeked_; }
  int64_t reachable(int64_t length) const override { return book_.reachable(length); }
  Status rewind(int64_t length) override;
  Status keep_path(Span<const int> nodes) override;
  std::string cache_layout() const override { return kv_.layout(); }
  int64_t cache_bytes(int64_t length) const override { return kv_.bytes(length); }
  Status write_cache(CacheSink& sink, int64_t length) override;
  Status read_cache(CacheSource& source, int64_t length) override;

 private:
  Status compute(Span<const int32_t> tokens, const Rows& rows, HeadRows* found);
  Status check_tokens(Span<const int32_t> tokens) const;
  Status resolve(const Rows& rows, size_t tokens);
  Status read_slots(CacheSource& source, int64_t length);
  Status beyond_peeked(Span<const int32_t> tokens, const Rows& rows, HeadRows* found);
  size_t shared(Span<const int32_t> tokens) const;
  void join_states(size_t count, size_t tokens, Span<const int> taps, HeadRows* found);
  Status lease_states(const HeadRows* found);
  Status resume(int layers, Fed fed, const Rows& rows, HeadRows* found);
  void forget_peeked();

  KvMemory kv_;
  Lease scratch_;  // of the runtime's memory for passes
  const ExpertStore* experts_;
  PassReads reads_;
  const PassSetting setting_;
  int64_t max_pass_;
  CacheBook book_;
  Passes passes_;
  PlannedPass planned_;
  SlotMoves moves_;
  std::vector<int> chosen_;
  // All peeked tokens, the layers that they went through and behind which they went on, and the outputs of some of these.
  std::vector<int32_t> peeked_;
  int peeked_exit_ = 0, resumed_ = 0;
  std::vector<int> tapped_;  // layers, ascending, whose outputs the latest pass returned
  std::vector<int> peek_states_;
  LayerStates below_, states_;
  Lease hidden_;
  int64_t reached_ = 0;  // the most slots since pages were last returned to the system
};

}  // namespace edgedec::engine
