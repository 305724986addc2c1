// Forms of replies for tests: how a form takes tokens of a vocabulary, one after the other.
#include <algorithm>

#include "core/grammar/schema.h"
#include "core/grammar/token_grammar.h"
#include "engine/probes/report.h"

using namespace edgedec::engine;

namespace {

// A vocabulary as a test lists it; text becomes the longest tokens that spell it.
class ListedCodec final : public Codec {
 public:
  explicit ListedCodec(JsonValue pieces) {
    for (size_t token = 0; token < pieces.size(); ++token) {
      std::string bytes;
      for (size_t at = 0; at < pieces.at(token).size(); ++at)
        bytes += static_cast<char>(pieces.at(token).at(at).whole().value_or(0));
      pieces_.push_back(std::move(bytes));
    }
  }

  size_t size() const { return pieces_.size(); }
  void append_piece(int64_t token, std::string* bytes) const override { *bytes += pieces_[static_cast<size_t>(token)]; }
  Status encode_inside(std::string_view text, std::vector<int32_t>* ids) const override {
    while (!text.empty()) {
      size_t best = pieces_.size();
      for (size_t token = 0; token < pieces_.size(); ++token) {
        const std::string& piece = pieces_[token];
        const bool begins = !piece.empty() && text.substr(0, piece.size()) == piece;
        if (begins && (best == pieces_.size() || piece.size() > pieces_[best].size())) best = token;
      }
      if (best == pieces_.size()) return {Code::kUsage, "the vocabulary spells no such text"};
      ids->push_back(static_cast<int32_t>(best));
      text.remove_prefix(pieces_[best].size());
    }
    return {};
  }

 private:
  std::vector<std::string> pieces_;
};

std::vector<int32_t> numbers(JsonValue list) {
  std::vector<int32_t> found;
  for (size_t at = 0; at < list.size(); ++at) found.push_back(static_cast<int32_t>(list.at(at).whole().value_or(-1)));
  return found;
}

Status rules_of(JsonValue request, Rules* rules) {
  if (const auto schema = request["schema"].text()) return rules_of_schema(*schema, rules);
  std::vector<std::string> choices;
  for (size_t at = 0; at < request["choices"].size(); ++at)
    choices.emplace_back(request["choices"].at(at).text().value_or(""));
  *rules = rules_of_choices(choices);
  return {};
}

// The tokens that may come next, those that do for certain, and whether the reply may or has to end.
Status write_step(TokenGrammar& grammar, size_t size, bool masks, JsonWriter* out) {
  int32_t certain[64];
  const int64_t count = grammar.forced(certain, 64);
  if (count < 0) return grammar.failure();
  out->begin_object().key("accepts").flag(grammar.accepts()).key("finished").flag(grammar.finished()).key("forced").begin_list();
  for (int64_t at = 0; at < count; ++at) out->whole(certain[at]);
  out->end_list();
  if (masks) {
    const uint8_t* bits = grammar.bits();
    if (!bits) return grammar.failure();
    out->key("mask").begin_list();
    for (size_t token = 0; token < size; ++token) {
      const bool may = bits[token >> 3] >> (token & 7) & 1;
      if (may) out->whole(static_cast<int64_t>(token));
      if (may != grammar.permits(static_cast<int32_t>(token))) return {Code::kBackend, "a mask and a token alone disagree"};
    }
    out->end_list();
  }
  out->end_object();
  return {};
}

// Follows the tokens one by one, "committed" or only ahead; stops before one that may not come next.
Status follow(JsonValue request, JsonWriter* out) {
  Rules rules;
  EDGEDEC_TRY(rules_of(request, &rules));
  const ListedCodec codec(request["pieces"]);
  const auto size = static_cast<int64_t>(codec.size());
  const GrammarVocabulary vocabulary(codec, numbers(request["silent"]), numbers(request["ends"]), size);
  TokenGrammar grammar(std::move(rules), vocabulary);
  const bool masks = request["masks"].flag().value_or(false), commits = request["commits"].flag().value_or(true);
  const std::vector<int32_t> tokens = numbers(request["tokens"]);
  int64_t refused_at = -1;
  out->key("steps").begin_list();
  for (size_t at = 0; at <= tokens.size(); ++at) {
    EDGEDEC_TRY(write_step(grammar, codec.size(), masks, out));
    if (at == tokens.size()) break;
    if (grammar.finished() || !grammar.permits(tokens[at])) {
      refused_at = static_cast<int64_t>(at);
      break;
    }
    bool finished;
    if (commits) EDGEDEC_TRY(grammar.commit(tokens[at]));
    else EDGEDEC_TRY(grammar.follow(Span<const int32_t>(tokens).first(at + 1), &finished));
  }
  out->end_list().key("refused_at").whole(refused_at);
  return {};
}

}  // namespace

// How a form takes tokens: the answer to a request, or the error.
EDGEDEC_EXPORT char* edgedec_probe_grammar(const char* request, size_t size, size_t* out_size) {
  Json json;
  if (!json.parse({request, size}, {64 << 20, 16, 8 << 20})) return reported({Code::kUsage, "no request"}, out_size);
  JsonWriter out;
  out.begin_object();
  const Status status = follow(json.root(), &out);
  out.end_object();
  return status.ok() ? copied(out.str(), out_size) : reported(status, out_size);
}
