#include "core/grammar/vocabulary.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace edgedec::engine {
namespace {

constexpr size_t kLongestToken = 1024;  // longer ones are not used
constexpr size_t kLookBack = 4;         // tokens at the end of certain text that may be others

size_t alike(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t at = 0;
  while (at < most && a[at] == b[at]) ++at;
  return at;
}

// Bytes of what stands at the beginning of `text` and is no UTF-8; 0 where a character does.
size_t broken(std::string_view text) {
  size_t at = 0;
  if (next_utf8(text, &at) != kNotUtf8) return 0;
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t most = lead >= 0xF0 && lead < 0xF5 ? 3 : lead >= 0xE0 ? 2 : 1;
  size_t size = 1;
  if (lead >= 0xC2 && lead < 0xF5)
    while (size < most && size < text.size() && !begins_character(text[size])) ++size;
  return size;
}

}  // namespace

GrammarVocabulary::GrammarVocabulary(const Codec& codec, Span<const int32_t> silent, Span<const int32_t> ends, int64_t size)
    : codec_(codec), size_(static_cast<size_t>(size)), places_(size_, -1), ends_(ends.begin(), ends.end()) {
  std::vector<char> left_out(size_, 0);
  for (const Span<const int32_t>& tokens : {silent, ends})
    for (int32_t token : tokens)
      if (token >= 0 && static_cast<size_t>(token) < size_) left_out[static_cast<size_t>(token)] = 1;
  std::string piece;
  for (size_t token = 0; token < size_; ++token) {
    piece.clear();
    if (!left_out[token]) codec.append_piece(static_cast<int64_t>(token), &piece);
    if (piece.empty() || piece.size() > kLongestToken) continue;
    const auto begin = static_cast<uint32_t>(bytes_.size());
    entries_.push_back({begin, static_cast<int32_t>(token), static_cast<uint16_t>(piece.size()), 0});
    bytes_ += piece;
    longest_ = std::max(longest_, piece.size());
  }
  std::sort(entries_.begin(), entries_.end(), [&](const Entry& a, const Entry& b) {
    const int order = text(a).compare(text(b));
    return order ? order < 0 : a.token < b.token;
  });
  for (size_t at = 0; at < entries_.size(); ++at) {
    places_[static_cast<size_t>(entries_[at].token)] = static_cast<int32_t>(at);
    if (at) entries_[at].shared = static_cast<uint16_t>(alike(text(entries_[at - 1]), text(entries_[at])));
  }
}

bool GrammarVocabulary::is_end(int32_t token) const { return std::find(ends_.begin(), ends_.end(), token) != ends_.end(); }

std::string_view GrammarVocabulary::bytes(int32_t token) const {
  if (token < 0 || static_cast<size_t>(token) >= size_ || places_[static_cast<size_t>(token)] < 0) return {};
  return text(entries_[static_cast<size_t>(places_[static_cast<size_t>(token)])]);
}

void GrammarVocabulary::allow(ByteAutomaton* automaton, StateId from, std::vector<uint8_t>* bits) const {
  std::vector<StateId> states(longest_ + 1, kDeadState);  // behind so many bytes of the entry
  states[0] = from;
  size_t sound = 0;  // bytes of the entry before that may come next
  for (const Entry& entry : entries_) {
    if (entry.shared > sound) continue;  // it begins with what may not come next
    const std::string_view token = text(entry);
    sound = entry.shared;
    while (sound < token.size()) {
      const StateId next = automaton->next(states[sound], static_cast<uint8_t>(token[sound]));
      if (next == kDeadState) break;
      states[++sound] = next;
    }
    if (sound == token.size()) (*bits)[static_cast<size_t>(entry.token) >> 3] |= static_cast<uint8_t>(1 << (entry.token & 7));
  }
}

Status GrammarVocabulary::spell(std::string_view bytes, std::vector<int32_t>* tokens) const {
  while (!bytes.empty()) {
    size_t sound = 0, wrong = 0;
    while (sound < bytes.size() && !(wrong = broken(bytes.substr(sound)))) {
      size_t next = sound;
      next_utf8(bytes, &next);
      sound = next;
    }
    if (sound) EDGEDEC_TRY(codec_.encode_inside(bytes.substr(0, sound), tokens));
    greedy(bytes.substr(sound, wrong), tokens);
    bytes.remove_prefix(sound + wrong);
  }
  return {};
}

// Bytes that are no characters: the longest tokens, one after the other.
void GrammarVocabulary::greedy(std::string_view bytes, std::vector<int32_t>* tokens) const {
  while (!bytes.empty()) {
    size_t size = bytes.size();
    for (; size; --size) {
      const size_t at = first_at(bytes.substr(0, size));
      if (at == entries_.size() || text(entries_[at]) != bytes.substr(0, size)) continue;
      tokens->push_back(entries_[at].token);
      break;
    }
    bytes.remove_prefix(std::max<size_t>(size, 1));
  }
}

// The first entry that is `prefix`, or behind it in the order.
size_t GrammarVocabulary::first_at(std::string_view prefix) const {
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), prefix,
                                      [&](const Entry& entry, std::string_view other) { return text(entry) < other; });
  return static_cast<size_t>(found - entries_.begin());
}

// Whether a token goes on behind `prefix` with bytes that may follow in `state`.
bool GrammarVocabulary::extends(ByteAutomaton* automaton, StateId state, std::string_view prefix) const {
  for (size_t at = first_at(prefix); at < entries_.size(); ++at) {
    std::string_view token = text(entries_[at]);
    if (token.substr(0, prefix.size()) != prefix) return false;
    token.remove_prefix(prefix.size());
    StateId to = token.empty() ? kDeadState : state;
    for (size_t index = 0; index < token.size() && to != kDeadState; ++index)
      to = automaton->next(to, static_cast<uint8_t>(token[index]));
    if (to != kDeadState) return true;
  }
  return false;
}

size_t GrammarVocabulary::open_tokens(ByteAutomaton* automaton, StateId state, Span<const int32_t> tokens) const {
  std::string tail;
  for (int32_t token : tokens.from(tokens.size() - std::min(tokens.size(), kLookBack))) tail += bytes(token);
  if (tail.size() > longest_) tail.erase(0, tail.size() - longest_);
  for (size_t from = 0; from < tail.size(); ++from) {
    if (!extends(automaton, state, std::string_view(tail).substr(from))) continue;
    size_t covered = 0;
    for (size_t open = 1; open <= tokens.size(); ++open) {
      covered += bytes(tokens[tokens.size() - open]).size();
      if (covered >= tail.size() - from) return open;
    }
  }
  return 0;
}

}  // namespace edgedec::engine
