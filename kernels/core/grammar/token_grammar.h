// A form of replies as decoding asks it: rules, over the tokens of a vocabulary. edgedec/grammar/matcher.py.
#pragma once

#include <cstdint>
#include <vector>

#include "core/decode/grammar.h"
#include "core/decode/speculation.h"
#include "core/grammar/automaton.h"
#include "core/grammar/vocabulary.h"

namespace edgedec::engine {

// The place that a reply has reached in its form.
class TokenGrammar final : public Grammar, public AnswerFilter {
 public:
  // `vocabulary` lives longer.
  TokenGrammar(Rules rules, const GrammarVocabulary& vocabulary);

  // Goes on behind a token that is committed. kUsage: it may not come next.
  Status commit(int32_t token);
  // Whether the reply may end where it stands, and whether it has to.
  bool accepts() const { return places_.back().over || automaton_.accepts(places_.back().state); }
  bool finished() const { return ended(places_.back()); }

  Status follow(Span<const int32_t> tokens, bool* finished) override;
  int64_t forced(int32_t* tokens, int64_t most) override;
  bool permits(int32_t token) override;
  const uint8_t* bits() override;
  void permitted(const DraftTree& tree, std::vector<int>* nodes) override;

  // The failure since the call before that forced() or bits() had no other way to tell.
  Status failure();

 private:
  // Behind a token of the reply; `last`: that token, -1 before the first.
  struct Standing {
    StateId state;
    int32_t last;
    bool over = false;  // behind a token that ends replies
  };
  struct Mask {
    StateId state;
    std::vector<uint8_t> bits;
  };

  bool ended(const Standing& at) const { return at.over || automaton_.finished(at.state); }
  StateId walked(StateId from, std::string_view bytes);
  // The tokens that come next for certain.
  const std::vector<int32_t>& certain(const Standing& at);
  Status find_certain(const Standing& at, std::vector<int32_t>* tokens);
  int forced_byte(StateId at);
  bool may_follow(const Standing& at, int32_t token);
  bool go(const Standing& from, int32_t token, Standing* to);
  void tidy();

  ByteAutomaton automaton_;
  const GrammarVocabulary& vocabulary_;
  std::vector<Standing> places_;  // behind the committed tokens, then behind each of those that are followed
  std::vector<int32_t> followed_;
  // Tokens that are certain in the standing that was asked for last.
  Standing certain_at_ = {kDeadState, -1};
  std::vector<int32_t> certain_;
  std::vector<Mask> masks_;
  size_t oldest_ = 0;
  Status failure_;
};

}  // namespace edgedec::engine
