// The tokens of a vocabulary in the order of their bytes, so that tokens which begin alike are walked together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/span.h"
#include "core/draft/codec.h"
#include "core/grammar/automaton.h"

namespace edgedec::engine {

// Tokens without text, and those that end a reply or steer it, are in no text of a grammar.
class GrammarVocabulary {
 public:
  // Bytes that it takes, about, for each token.
  static constexpr int64_t kTokenBytes = 24;

  // `codec` lives longer. `silent`: tokens that add no text, ends among them. `size`: rows of logits.
  GrammarVocabulary(const Codec& codec, Span<const int32_t> silent, Span<const int32_t> ends, int64_t size);

  size_t size() const { return size_; }
  Span<const int32_t> ends() const { return ends_; }
  bool is_end(int32_t token) const;
  // The bytes of a token; none for those without text.
  std::string_view bytes(int32_t token) const;

  // Sets the bits of the tokens that may come next in a state.
  void allow(ByteAutomaton* automaton, StateId from, std::vector<uint8_t>* bits) const;

  // The tokens that spell `bytes`, which continue a text.
  Status spell(std::string_view bytes, std::vector<int32_t>* tokens) const;
  // How many of the last tokens could be others: those of which a longer token may follow in `state`, behind them all.
  size_t open_tokens(ByteAutomaton* automaton, StateId state, Span<const int32_t> tokens) const;

 private:
  struct Entry {
    uint32_t begin;
    int32_t token;
    uint16_t size, shared;  // bytes, and how many of them are those of the entry before
  };

  std::string_view text(const Entry& entry) const { return std::string_view(bytes_).substr(entry.begin, entry.size); }
  size_t first_at(std::string_view prefix) const;
  bool extends(ByteAutomaton* automaton, StateId state, std::string_view prefix) const;
  void greedy(std::string_view bytes, std::vector<int32_t>* tokens) const;

  const Codec& codec_;
  const size_t size_;
  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<int32_t> places_;  // of each token among the entries, -1: none
  std::vector<int32_t> ends_;
  size_t longest_ = 0;
};

}  // namespace edgedec::engine
