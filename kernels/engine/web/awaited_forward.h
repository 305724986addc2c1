// A model whose passes somebody else computes: the bookkeeping of its KV cache, and the description of each pass. A CPU model
// can compute them here; then drafters read its hidden states, and run some of its layers. A device elsewhere may peek.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/decode/passes.h"
#include "core/memory/cache_book.h"
#include "core/decode/forward.h"
#include "engine/web/cpu_passes.h"
#include "engine/web/edgedec_web.h"

namespace edgedec::engine {

class AwaitedForward final : public Forward {
 public:
  AwaitedForward(const ModelSpec& spec, int64_t capacity, int64_t max_pass);

  // Describes a pass. `wanted` stays as it is until arrived() or lost().
  Status announce(const WantedPass& wanted);
  const edgedec_web_pass& pass() const { return pass_; }
  const std::vector<int64_t>& positions() const { return planned_.positions; }
  float temperature() const { return static_cast<float>(found_->temperature); }
  // Takes the results of the announced pass, and its tokens into the cache. kBadFile: they are no numbers; nothing is
  // appended then, and recurrent states go back to their checkpoint.
  Status arrived();
  // The slots are gone.
  void lost();

  // Lets a device elsewhere peek: the numbers of layers that it can run apart, ascending to all, and a function that computes the
  // pass that is described, and returns 0 unless it fails.
  void use(std::vector<int> exits, std::function<int32_t()> peek);
  // Whether a peek is being computed elsewhere.
  bool peeking() const { return peeking_; }

  // Lets `model`, which outlives this, compute passes from now on; the slots are gone.
  void use(CpuModel& model);
  // Makes the copies of slots there that the next pass would begin with: somebody reads them before it.
  void settle();
  // Computes the announced pass there.
  Status compute();

  const ModelSpec& spec() const override { return spec_; }
  int64_t max_pass() const override { return max_pass_; }
  int64_t capacity() const override { return book_.capacity(); }
  int64_t length() const override { return book_.length(); }
  int64_t most_undone() const override { return states_.undone; }
  int64_t reachable(int64_t length) const override { return book_.reachable(length); }
  Status rewind(int64_t length) override;
  Status keep_path(Span<const int> nodes) override;
  Status extend(Span<const int32_t> tokens, Span<const int> parents, const Rows& rows, HeadRows* found) override;
  Span<const int> exits() const override { return Span<const int>(cpu_ ? cpu_->model().exits() : exits_); }
  Span<const int> taps() const override { return cpu_ ? Span<const int>(cpu_->model().taps()) : Span<const int>(); }
  Status peek(Span<const int32_t> tokens, LayerSubset layers, const Rows& rows, HeadRows* found) override;
  Span<const int32_t> peeked() const override { return cpu_ ? cpu_->peeked() : Span<const int32_t>(peeked_); }
  std::string cache_layout() const override { return "elsewhere"; }
  int64_t cache_bytes(int64_t) const override { return 0; }
  Status write_cache(CacheSink&, int64_t) override { return elsewhere(); }
  Status read_cache(CacheSource&, int64_t) override { return elsewhere(); }

 private:
  static Status elsewhere() { return {Code::kUnsupported, "passes of this model are computed elsewhere"}; }
  Status peek_here(Span<const int32_t> tokens, LayerSubset layers, const Rows& rows);
  Status peek_elsewhere(Span<const int32_t> tokens, LayerSubset layers, const Rows& rows);
  void describe(Span<const int32_t> tokens, Span<const int64_t> keep);
  size_t begins_peeked() const;
  Status choose(const Rows& rows, size_t tokens);
  void forget_peeked();
  void cover();
  void find_paths();
  void make_room(const Rows& rows, HeadRows* found);
  bool sound(bool padded) const;

  const ModelSpec& spec_;
  int64_t max_pass_;
  StateBook states_;
  CacheBook book_;
  int64_t covered_ = 0;  // tokens that the states elsewhere cover
  bool due_ = false;     // whether the next pass is the first one after a rewind
  PlannedPass planned_;
  SlotMoves moves_;
  std::vector<int32_t> positions_, chosen_, kept_;
  std::vector<uint32_t> paths_, from_, to_;
  HeadRows* found_ = nullptr;
  Rows rows_;  // of the announced pass
  edgedec_web_pass pass_ = {};
  std::unique_ptr<CpuPasses> cpu_;

  // Peeks elsewhere: the tokens since the cache last changed, and the layers that they went through.
  std::vector<int> exits_;
  std::function<int32_t()> wait_;
  std::vector<int32_t> peeked_;
  LayerSubset layers_;
  bool peeking_ = false;
};

}  // namespace edgedec::engine
