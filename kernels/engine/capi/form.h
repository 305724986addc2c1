// The form that a reply has to have: JSON of a schema, or one of some texts. edgedec/grammar.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/grammar/token_grammar.h"
#include "core/model_spec.h"
#include "engine/text/tokenizer.h"

namespace edgedec::engine {

struct ReplyForm {
  std::string schema;                // empty: none
  std::vector<std::string> choices;  // the reply is exactly one of these; empty: whatever it likes

  bool any() const { return !schema.empty() || !choices.empty(); }
};

// Forms for the tokens of one model. The view of its vocabulary is made for the first one.
class Forms {
 public:
  // Both live longer.
  Forms(const Tokenizer& tokenizer, const ModelSpec& spec) : tokenizer_(tokenizer), spec_(spec) {}

  // Bytes that forms take, at most.
  static int64_t nbytes(const ModelSpec& spec);

  // Compiles a form, and goes on behind `said`, the tokens of a reply so far. kUsage: the form cannot be used, or no such
  // reply begins so. kUnsupported: the model has no end token.
  Status begin(const ReplyForm& form, Span<const int32_t> said, std::unique_ptr<TokenGrammar>* grammar);

 private:
  Status compile(const ReplyForm& form, Rules* rules) const;

  const Tokenizer& tokenizer_;
  const ModelSpec& spec_;
  std::unique_ptr<GrammarVocabulary> vocabulary_;
};

}  // namespace edgedec::engine
