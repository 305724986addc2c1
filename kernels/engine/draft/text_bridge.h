// Translation by text, between vocabularies that share nothing else: TextBridge of edgedec/draft/bridge.py, with the maps of
// a device's folder in place of searches for tokens that spell the same bytes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/bundle/manifest.h"
#include "core/draft/bridge.h"
#include "engine/text/tokenizer.h"

namespace edgedec::engine {

// For each id of one side the other's id of the same meaning, or -1.
struct VocabularyMaps {
  std::vector<int32_t> to_target, to_draft;

  // Reads the maps in `folder` between vocabularies of these sizes. kBadFile.
  Status read(const std::string& folder, int64_t target_size, int64_t draft_size);
};

class TextBridge final : public Bridge {
 public:
  // All that is handed in lives longer.
  TextBridge(const Tokenizer& target, const Tokenizer& draft, const VocabularyMaps& maps);

  Status begin(Span<const int32_t> tokens, size_t kept) override;
  Status commit(Span<const int32_t> tokens) override;
  Status read(Span<const int32_t>* ids) override;
  int32_t to_target_id(int32_t id) override;
  bool ends(int32_t token) override;
  Status in_target_ids(const TreeBuilder& sketch, TreeBuilder* draft) override;
  Status length(Span<const int32_t> tokens, int64_t* count) override;
  size_t nbytes() const override;

 private:
  Status say(Span<const int32_t> tokens, double probability, TreeBuilder* draft);
  Status cut(Span<const int32_t> tokens, bool* whole);
  void control(int32_t token);
  Status close();
  void spell_open();

  const Tokenizer &target_, &draft_;
  const VocabularyMaps& maps_;
  std::vector<int32_t> opening_;  // tokens that begin each of the drafter's sequences
  std::vector<int32_t> closed_;   // the drafter's tokens of stretches that are over
  std::vector<int32_t> open_;     // the target's tokens of the last one
  std::vector<std::pair<size_t, size_t>> marks_;  // where stretches end: in target tokens, and in the drafter's
  std::string half_;              // the beginning of a character that the committed text ends inside of
  std::vector<int32_t> all_, cut_, encoded_, path_;
  std::string spelled_, text_, piece_;
};

}  // namespace edgedec::engine
