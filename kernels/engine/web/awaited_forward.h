// A model whose passes somebody else computes: the bookkeeping of its KV cache, and the description of each pass.
#pragma once

#include <vector>

#include "core/decode/passes.h"
#include "core/memory/cache_book.h"
#include "core/decode/forward.h"
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

  const ModelSpec& spec() const override { return spec_; }
  int64_t max_pass() const override { return max_pass_; }
  int64_t capacity() const override { return book_.capacity(); }
  int64_t length() const override { return book_.length(); }
  int64_t most_undone() const override { return states_.undone; }
  int64_t reachable(int64_t length) const override { return book_.reachable(length); }
  Status rewind(int64_t length) override;
  Status keep_path(Span<const int> nodes) override;
  Status extend(Span<const int32_t>, Span<const int>, const Rows&, HeadRows*) override { return elsewhere(); }
  std::string cache_layout() const override { return "elsewhere"; }
  int64_t cache_bytes(int64_t) const override { return 0; }
  Status write_cache(CacheSink&, int64_t) override { return elsewhere(); }
  Status read_cache(CacheSource&, int64_t) override { return elsewhere(); }

 private:
  static Status elsewhere() { return {Code::kUnsupported, "passes of this model are computed elsewhere"}; }
  void choose(const Rows& rows, size_t tokens);
  void cover();
  void find_paths();
  void make_room(const Rows& rows, HeadRows* found);

  const ModelSpec& spec_;
  int64_t max_pass_;
  StateBook states_;
  CacheBook book_;
  int64_t covered_ = 0;  // tokens that the states elsewhere cover
  bool due_ = false;     // whether the next pass is the first one after a rewind
  PlannedPass planned_;
  SlotMoves moves_;
  std::vector<int32_t> positions_, chosen_;
  std::vector<uint32_t> paths_, from_, to_;
  HeadRows* found_ = nullptr;
  edgedec_web_pass pass_ = {};
};

}  // namespace edgedec::engine
