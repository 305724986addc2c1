#include "engine/capi/form.h"

#include "core/base/format.h"
#include "core/grammar/schema.h"

namespace edgedec::engine {
namespace {

constexpr int64_t kAutomatonBytes = 20 << 20;  // states, their places, and masks
constexpr size_t kMostChoices = 1000, kMostChoiceBytes = 100'000;

}  // namespace

int64_t Forms::nbytes(const ModelSpec& spec) { return kAutomatonBytes + GrammarVocabulary::kTokenBytes * spec.vocab_size; }

Status Forms::compile(const ReplyForm& form, Rules* rules) const {
  if (!form.schema.empty() && !form.choices.empty())
    return {Code::kUsage, "a schema and choices are given", "a reply has one form: give one"};
  if (!form.schema.empty()) return rules_of_schema(form.schema, rules);
  size_t bytes = 0;
  for (const std::string& choice : form.choices) {
    if (choice.empty()) return {Code::kUsage, "a choice is empty", "hand in texts"};
    bytes += choice.size();
  }
  if (form.choices.size() > kMostChoices || bytes > kMostChoiceBytes)
    return {Code::kUsage, "the choices are too many or too long", "1000 choices of 100,000 bytes in all are possible"};
  *rules = rules_of_choices(form.choices);
  return {};
}

Status Forms::begin(const ReplyForm& form, Span<const int32_t> said, std::unique_ptr<TokenGrammar>* grammar) {
  if (!form.any()) return {};
  if (spec_.eos_ids.empty())
    return {Code::kUnsupported, spec_.name + " has no end token, which structured output needs", "export it with one"};
  Rules rules;
  EDGEDEC_TRY(compile(form, &rules));
  if (!vocabulary_) {
    std::vector<int32_t> silent;
    for (const auto& [text, id] : tokenizer_.control()) silent.push_back(id);
    vocabulary_ = std::make_unique<GrammarVocabulary>(tokenizer_, silent, spec_.eos_ids, spec_.vocab_size);
  }
  auto made = std::make_unique<TokenGrammar>(std::move(rules), *vocabulary_);
  for (int32_t token : said) EDGEDEC_TRY(made->commit(token));
  *grammar = std::move(made);
  return {};
}

}  // namespace edgedec::engine
