// The tokens before a draw, as far as its settings read them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/span.h"
#include "core/params.h"

namespace edgedec::engine {

// Token ids in the order in which they first came, and how often each came.
class TokenCounts {
 public:
  void add(int32_t token);
  // How often `token` came.
  int32_t count(int32_t token) const;
  Span<const int32_t> ids() const { return ids_; }
  // Takes room for so many different ids, so that `add` allocates no more.
  void reserve(size_t ids);

 private:
  size_t slot_of(int32_t token) const;
  void rehash(size_t slots);

  std::vector<int32_t> ids_, counts_;
  std::vector<int32_t> slots_;  // places in ids_, -1: free; a power of two, at most half full
};

// The repetition penalty reads which ids occurred in prompt and reply; frequency and presence penalties count the
// reply's own tokens; `bound` is mirostat's state, the most bits of surprise.
class DrawHistory {
 public:
  DrawHistory() = default;
  // `tokens` are all before the draw; the last `said` of them are of the reply. `bound` is that after a reply's first
  // part; without it, as a reply begins.
  DrawHistory(const DrawParams& params, Span<const int32_t> tokens = {}, size_t said = 0,
              std::optional<double> bound = {});

  // Notes that `token` was committed, and the bound after it.
  void add(int32_t token, std::optional<double> bound = {});

  // The history with `tokens` behind it, which may be taken back. It reads this one, which has to outlive it, and
  // `tokens` too.
  DrawHistory after(Span<const int32_t> tokens, std::optional<double> bound = {}) const;

  std::optional<double> bound() const { return bound_; }
  bool has_occurred(int32_t token) const;
  // How often the reply said `token`.
  int32_t said(int32_t token) const;
  // Appends the ids that occurred, each once, in the order in which they first did.
  void occurred_ids(std::vector<int32_t>* ids) const;
  // Appends the ids that the reply said, each once.
  void said_ids(std::vector<int32_t>* ids) const;
  // Takes room for so many more tokens.
  void reserve(size_t tokens);

 private:
  void unlisted(const TokenCounts& base, std::vector<int32_t>* ids) const;
  const DrawHistory& base() const { return base_ ? *base_ : *this; }

  bool reads_ids_ = false, counts_ = false;
  TokenCounts occurred_, said_;
  std::optional<double> bound_;
  const DrawHistory* base_ = nullptr;  // of a history made by `after`: the one it continues
  std::vector<int32_t> behind_;        // tokens behind the base
};

}  // namespace edgedec::engine
