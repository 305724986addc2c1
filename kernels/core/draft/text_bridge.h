// Translation by text, between vocabularies that share nothing else.
//
// With another vocabulary the two tokenise the same text differently. The draft model reads the committed text in its own
// tokens and drafts text, which the target's tokenizer cuts into the target's tokens (string alignment, after Timor et al.
// 2025); tokens that spell the same bytes share the noise of sampled decoding (token-level intersection, ibid.).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/draft/bridge.h"
#include "core/draft/codec.h"

namespace edgedec::engine {

// Tokens of the same meaning: those that spell the same bytes, and control tokens of the same text or role.
class VocabularyMaps {
 public:
  virtual ~VocabularyMaps() = default;
  // The target's token for one of the drafter's; below 0 for none.
  virtual int32_t to_target(int32_t id) = 0;
  // The drafter's token for a control token of the target; below 0 for none.
  virtual int32_t to_draft(int32_t token) = 0;
  virtual size_t nbytes() const { return 0; }
};

class TextBridge final : public Bridge {
 public:
  // All that is referred to lives longer. `opening`: the first tokens of the drafter's sequences, which no text makes.
  // Control tokens of the target that have no counterpart are left out.
  TextBridge(const Codec& target, const Codec& draft, VocabularyMaps& maps, std::vector<int32_t> opening);

  Status begin(Span<const int32_t> tokens, size_t kept) override;
  Status commit(Span<const int32_t> tokens) override;
  Status read(Span<const int32_t>* ids) override;
  int32_t to_target_id(int32_t id) override { return maps_.to_target(id); }
  bool ends(int32_t token) override;
  Status in_target_ids(const TreeBuilder& sketch, TreeBuilder* draft) override;
  Status length(Span<const int32_t> tokens, int64_t* count) override;
  size_t nbytes() const override;

 private:
  Status say(Span<const int32_t> tokens, double probability, TreeBuilder* draft);
  Status cut(Span<const int32_t> tokens);
  Status cut_text();
  void control(int32_t token);
  Status close();
  void spell_open();

  // The target's tokens that spell a text, and whether they do so to its last byte.
  struct Cut {
    std::vector<int32_t> tokens;
    bool whole = false;
  };

  const Codec &target_, &draft_;
  VocabularyMaps& maps_;
  const std::vector<int32_t> opening_;
  std::vector<int32_t> closed_;   // the drafter's tokens of stretches that are over
  std::vector<int32_t> open_;     // the target's tokens of the last one
  std::vector<std::pair<size_t, size_t>> marks_;  // where stretches end: in target tokens, and in the drafter's
  std::string half_;              // the beginning of a character that the committed text ends inside of
  Cut cut_;                       // of the latest text
  // Since the text was read, by text: sampled drafts ask for a path twice. There are as many as a draft has nodes.
  std::vector<std::pair<std::string, Cut>> cuts_;
  std::vector<int32_t> all_, encoded_, path_;
  std::string spelled_, text_, piece_;
};

}  // namespace edgedec::engine
