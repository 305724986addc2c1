// A bundle's tokenizer over its mapped table: edgedec/text/tokenizer.py.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/files.h"
#include "core/base/span.h"
#include "core/base/status.h"
#include "core/draft/codec.h"
#include "engine/bundle/manifest.h"
#include "engine/text/guarded_text.h"
#include "text/steps.h"

namespace edgedec::engine {

// Not for several threads at once.
class Tokenizer final : public Codec {
 public:
  // Memory that encoding takes for each byte of text, at most.
  static constexpr size_t kEncodingBytes = 64;

  // Reads the table `file` and keeps it mapped. kBadFile: it is damaged. kNoMemory.
  static Status open(const std::string& file, const TokenizerInfo& info, std::unique_ptr<Tokenizer>* tokenizer);

  // Appends the ids of `text`, in which U+FFFD stands for what is not UTF-8. With `specials` the texts of control tokens
  // become those tokens; without it they are ordinary text, as user input must be. BOS is not added: see begin().
  Status encode(std::string_view text, bool specials, std::vector<int32_t>* ids) const;

  // The same for a rendered prompt, whose control tokens become tokens but where its text is literal.
  Status encode(const GuardedText& given, std::vector<int32_t>* ids) const;

  // The ids of text that continues another text: without BOS, without a space in front.
  Status encode_inside(std::string_view text, std::vector<int32_t>* ids) const override;

  // Puts BOS in front of ids, where the model wants it and it is not there.
  void begin(std::vector<int32_t>* ids) const;

  // Bytes of UTF-8 beyond which a text is certainly more than `tokens` tokens.
  uint64_t most_bytes(uint64_t tokens) const;

  // A token as the vocabulary spells it; empty for no token.
  std::string_view spelling(int64_t token) const;

  // Appends the bytes that a token adds to a text: none for control tokens and ids without a token.
  void append_piece(int64_t token, std::string* bytes) const override;

  // The control tokens, {text, id}, in the order of their texts' bytes.
  const std::vector<std::pair<std::string_view, int32_t>>& control() const;

  size_t size() const { return table_.count(text::kSorted); }
  bool adds_space() const { return table_.flags() & text::kAddsSpace; }
  const TokenizerInfo& info() const { return info_; }
  // Bytes of the mapped file, of which encoding makes pages resident.
  size_t mapped_bytes() const { return file_.size(); }

 private:
  Tokenizer() = default;
  Status encode(std::string_view valid, text::Specials specials, std::vector<int32_t>* ids) const;
  uint64_t longest() const;

  MappedFile file_;
  text::Table table_;
  TokenizerInfo info_;
  std::unique_ptr<text::Encoder> encoder_;
  mutable std::vector<std::pair<std::string_view, int32_t>> control_;
  mutable bool control_known_ = false;
  mutable uint64_t longest_ = 0;  // of the tokens; 0: not known yet
};

}  // namespace edgedec::engine
