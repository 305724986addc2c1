#include "core/grammar/token_grammar.h"

#include <algorithm>
#include <utility>

namespace edgedec::engine {
namespace {

constexpr size_t kMostMasks = 16;
constexpr int kNoByte = -1;
constexpr size_t kMostCertain = 4096;  // bytes that are looked ahead

Status too_complex() {
  return {Code::kUsage, "the form of the reply is too complex to go on with", "use one with fewer alternatives"};
}

}  // namespace

TokenGrammar::TokenGrammar(Rules rules, const GrammarVocabulary& vocabulary)
    : automaton_(std::move(rules)), vocabulary_(vocabulary), places_{{automaton_.start(), -1}} {}

Status TokenGrammar::commit(int32_t token) {
  if (automaton_.too_complex()) return too_complex();
  if (followed_.empty() || followed_[0] != token) {
    Standing next;
    places_.resize(1);
    followed_.clear();
    if (!go(places_[0], token, &next))
      return {Code::kUsage, "the reply so far is not of this form", "continue it with the one it began with"};
    places_[0] = next;
  } else {
    followed_.erase(followed_.begin());
    places_.erase(places_.begin());
  }
  tidy();
  return {};
}

// Forgets states that nobody stands in, once there are many.
void TokenGrammar::tidy() {
  if (!automaton_.full()) return;
  std::vector<StateId> kept;
  for (const Standing& place : places_) kept.push_back(place.state);
  automaton_.keep(&kept);
  for (size_t at = 0; at < kept.size(); ++at) places_[at].state = kept[at];
  certain_at_.state = kDeadState;
  masks_.clear();
}

Status TokenGrammar::follow(Span<const int32_t> tokens, bool* finished) {
  size_t kept = 0;
  while (kept < tokens.size() && kept < followed_.size() && tokens[kept] == followed_[kept]) ++kept;
  followed_.resize(kept);
  places_.resize(kept + 1);
  for (int32_t token : tokens.from(kept)) {
    Standing next;
    if (!go(places_.back(), token, &next)) return too_complex();
    places_.push_back(next);
    followed_.push_back(token);
  }
  *finished = ended(places_.back());
  return {};
}

int64_t TokenGrammar::forced(int32_t* tokens, int64_t most) {
  const std::vector<int32_t>& found = certain(places_.back());
  const auto count = std::min(static_cast<size_t>(most), found.size());
  std::copy_n(found.begin(), count, tokens);
  return failure_.ok() ? static_cast<int64_t>(count) : -1;
}

bool TokenGrammar::permits(int32_t token) { return may_follow(places_.back(), token); }

const uint8_t* TokenGrammar::bits() {
  const Standing& at = places_.back();
  const std::vector<int32_t>& only = certain(at);
  if (!failure_.ok()) return nullptr;
  const bool keeps = only.empty() && !at.over;
  const auto known = std::find_if(masks_.begin(), masks_.end(), [&](const Mask& mask) { return mask.state == at.state; });
  if (keeps && known != masks_.end()) return known->bits.data();
  std::vector<uint8_t> bits((vocabulary_.size() + 7) / 8, 0);
  const auto set = [&](int32_t token) {
    const auto place = static_cast<size_t>(token);
    if (token >= 0 && place < vocabulary_.size()) bits[place >> 3] |= static_cast<uint8_t>(1 << (place & 7));
  };
  if (!only.empty()) {
    set(only[0]);
  } else {
    if (!ended(at)) vocabulary_.allow(&automaton_, at.state, &bits);
    if (at.over || automaton_.accepts(at.state)) std::for_each(vocabulary_.ends().begin(), vocabulary_.ends().end(), set);
  }
  const bool none = std::all_of(bits.begin(), bits.end(), [](uint8_t byte) { return byte == 0; });
  if (automaton_.too_complex()) failure_ = too_complex();
  else if (none) failure_ = {Code::kUnsupported, "the model has no token that may come next in this form", "use another"};
  if (!failure_.ok()) return nullptr;
  Mask mask = {keeps ? at.state : kDeadState, std::move(bits)};
  if (masks_.size() < kMostMasks) {
    masks_.push_back(std::move(mask));
    return masks_.back().bits.data();
  }
  oldest_ = (oldest_ + 1) % kMostMasks;
  masks_[oldest_] = std::move(mask);
  return masks_[oldest_].bits.data();
}

// A draft's nodes stand behind their parents.
void TokenGrammar::permitted(const DraftTree& tree, std::vector<int>* nodes) {
  const Standing from = places_.back();
  std::vector<Standing> behind(tree.size());
  std::vector<char> stays(tree.size(), 0);
  nodes->clear();
  for (size_t node = 0; node < tree.size(); ++node) {
    const int parent = tree.parents[node];
    if (parent != kRoot && !stays[static_cast<size_t>(parent)]) continue;
    if (!go(parent == kRoot ? from : behind[static_cast<size_t>(parent)], tree.tokens[node], &behind[node])) continue;
    stays[node] = 1;
    nodes->push_back(static_cast<int>(node));
  }
}

Status TokenGrammar::failure() { return std::exchange(failure_, Status()); }

StateId TokenGrammar::walked(StateId from, std::string_view bytes) {
  for (size_t at = 0; at < bytes.size() && from != kDeadState; ++at) from = automaton_.next(from, static_cast<uint8_t>(bytes[at]));
  return from;
}

bool TokenGrammar::may_follow(const Standing& at, int32_t token) {
  if (at.over) return vocabulary_.is_end(token);
  if (vocabulary_.is_end(token)) return automaton_.accepts(at.state);
  if (ended(at)) return false;
  const std::vector<int32_t>& only = certain(at);
  if (!only.empty()) return token == only[0];
  const std::string_view bytes = vocabulary_.bytes(token);
  return !bytes.empty() && walked(at.state, bytes) != kDeadState;
}

bool TokenGrammar::go(const Standing& from, int32_t token, Standing* to) {
  if (ended(from) || !may_follow(from, token)) return false;
  *to = {walked(from.state, vocabulary_.bytes(token)), token, vocabulary_.is_end(token)};
  return to->state != kDeadState;
}

const std::vector<int32_t>& TokenGrammar::certain(const Standing& at) {
  if (certain_at_.state == at.state && certain_at_.last == at.last && certain_at_.over == at.over) return certain_;
  certain_.clear();
  const Status found = ended(at) ? Status() : find_certain(at, &certain_);
  if (found.ok()) certain_at_ = at;
  else failure_ = found;
  return certain_;
}

// The only byte that may come next; kNoByte where there are several, or the reply may end.
int TokenGrammar::forced_byte(StateId at) {
  if (automaton_.accepts(at)) return kNoByte;
  int found = kNoByte;
  for (int byte = 0; byte < 256; ++byte) {
    if (automaton_.next(at, static_cast<uint8_t>(byte)) == kDeadState) continue;
    if (found != kNoByte) return kNoByte;
    found = byte;
  }
  return found;
}

// Certain text becomes the tokens that the tokenizer makes of it, behind the last one where it leaves that alone. Those at
// its end that could be the beginning of longer ones are left open.
Status TokenGrammar::find_certain(const Standing& at, std::vector<int32_t>* tokens) {
  std::string text(vocabulary_.bytes(at.last));
  const size_t known = text.size();
  StateId end = at.state;
  for (int byte; text.size() < known + kMostCertain && (byte = forced_byte(end)) != kNoByte;) {
    text += static_cast<char>(byte);
    end = automaton_.next(end, static_cast<uint8_t>(byte));
  }
  if (text.size() == known) return {};
  EDGEDEC_TRY(vocabulary_.spell(text, tokens));
  const bool goes_on = known && !tokens->empty() && tokens->front() == at.last;
  if (known && !goes_on) {
    tokens->clear();
    EDGEDEC_TRY(vocabulary_.spell(std::string_view(text).substr(known), tokens));
  }
  if (goes_on) tokens->erase(tokens->begin());
  tokens->resize(tokens->size() - vocabulary_.open_tokens(&automaton_, end, *tokens));
  return {};
}

}  // namespace edgedec::engine
