// The seam between the runtime and whatever computes logits: edgedec/core/forward.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/control/costs.h"
#include "core/model_spec.h"
#include "core/rows.h"

namespace edgedec::engine {

// Number format of keys and values: fp16, or int8 with fp16 scales (tree_attention.h).
enum class KvType { kFp16, kInt8 };

// Takes the bytes of a saved cache, piece by piece.
class CacheSink {
 public:
  virtual ~CacheSink() = default;
  virtual Status write(const void* data, size_t size) = 0;
};

// Gives the bytes of a saved cache. A source that ends early fails.
class CacheSource {
 public:
  virtual ~CacheSource() = default;
  virtual Status read(void* data, size_t size) = 0;
};

// Keys and values, as they lie in memory: f16[layers, 2, kv heads, slots, row].
struct LentKeys {
  const char* name;  // the input of a graph that reads them
  const void* data;
  int64_t shape[5];
};

// Layers that draft: the first `exit`, and those behind the first `resume`; 0: none of these.
struct LayerSubset {
  int exit = 0, resume = 0;
};

// A model with a KV cache, as far as drafters ask one. The committed tokens live outside of it; this cache follows them.
// Calls whose arguments are malformed fail with kUsage and change nothing. One thread at a time.
class DraftForward {
 public:
  virtual ~DraftForward() = default;

  // Most tokens of one extend. Longer prompts are fed in pieces.
  virtual int64_t max_pass() const = 0;
  // Most tokens that the cache holds.
  virtual int64_t capacity() const = 0;
  // Tokens fed so far: the position of the next one.
  virtual int64_t length() const = 0;
  // Most tokens that can be taken back, and so be drafted, where recurrent layers keep states; 0: no bound.
  virtual int64_t most_undone() const { return 0; }
  // Whether passes take trees.
  virtual bool trees() const { return true; }
  // The share of the latest pass that was this sequence's.
  virtual double share() const { return 1.0; }

  // Runs one pass over `tokens` and appends them to the cache in the order given. parents[i] is the index in this pass
  // of token i's parent, or kRoot for a child of the last resident token; no parents mean a chain. After a pass over a
  // tree, settle the cache with keep_path or rewind before the next extend. `found` gets the rows asked for; its memory
  // is used again, so hand in the same one. Fails with kContextFull where the tokens do not fit, kBackend, kBadFile for
  // logits that are not numbers; nothing is appended then.
  virtual Status extend(Span<const int32_t> tokens, Span<const int> parents, const Rows& rows, HeadRows* found) = 0;

  // Runs only some layers over `tokens`, and the model's norm and head over `rows` of them. The work of layers behind
  // `resume` is the draft's alone.
  //
  // Nothing is appended: the length stays. The tokens follow those peeked before, as a chain. The next extend whose tokens
  // begin like the peeked ones takes their lower layers from here: nothing is computed twice, and its bits are the same.
  // Every other change of the cache, and a peek with other layers, drops all that was peeked.
  virtual Status peek(Span<const int32_t>, LayerSubset, const Rows&, HeadRows*) {
    return {Code::kUnsupported, "this model has no early exits", "pull or export the model again"};
  }
  // Whether tokens were peeked since the cache last changed.
  virtual bool has_peeked() const { return false; }

  // Tokens that rewind(length) leaves: `length`, or 0 where the cache has lost slots that the next token would see
  // (layers with a window keep only the newest tokens). States may have no more than a checkpoint with fewer tokens.
  virtual int64_t reachable(int64_t length) const = 0;

  // Forgets every token from position reachable(length) on. With `most_undone` the cache takes a checkpoint here, also where
  // nothing is forgotten.
  virtual Status rewind(int64_t length) = 0;

  // Keeps only `nodes` of the last pass (indices into it, a root path), compacted in that order.
  virtual Status keep_path(Span<const int> nodes) = 0;
};

// The seam between the runtime and whatever computes logits.
class Forward : public DraftForward {
 public:
  virtual const ModelSpec& spec() const = 0;

  // Frees the whole rows of logits that passes returned in `found`, and their lease: a later reply may need fewer.
  virtual void free_logits(HeadRows* found) { Logits().swap(found->logits); }

  // Numbers of layers after which peek() can compute logits, ascending; the last is all layers. None: it cannot.
  virtual Span<const int> exits() const { return {}; }
  // Counts of the experts that the latest pass read from a disk; null: none are there.
  virtual const PassReads* reads() const { return nullptr; }
  // Layers, ascending, whose outputs passes can return.
  virtual Span<const int> taps() const { return {}; }
  // The keys and values, for a graph of another model that reads them between passes. None: they are not to be had.
  virtual std::vector<LentKeys> lent() const { return {}; }
  // The tokens peeked since the cache last changed.
  virtual Span<const int32_t> peeked() const { return {}; }
  bool has_peeked() const final { return !peeked().empty(); }

  // The layout of a slot, as text. A cache can be read where model and layout are the same.
  virtual std::string cache_layout() const = 0;
  // Bytes of `length` slots, as written.
  virtual int64_t cache_bytes(int64_t length) const = 0;
  // Writes the slots of the first `length` tokens, which must be resident and settled.
  virtual Status write_cache(CacheSink& sink, int64_t length) = 0;
  // Replaces the cache by `length` tokens whose slots come from `source`. After a failure the cache is empty.
  virtual Status read_cache(CacheSource& source, int64_t length) = 0;
};

}  // namespace edgedec::engine
