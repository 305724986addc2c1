#include "core/draft/text_bridge.h"

#include "core/base/utf8_decoder.h"

namespace edgedec::engine {
namespace {

constexpr size_t kStretch = 16;  // target tokens after which the next word begins a new stretch
constexpr size_t kLongest = 64;  // target tokens of a stretch without a word's beginning
constexpr double kTrifle = 0.02; // paths less probable than this are not worth tokenising

// The text of `raw`, with U+FFFD for bytes that are no UTF-8, and the bytes of a character that its end cuts.
void whole_text(std::string_view raw, std::string* text, std::string* rest) {
  Utf8Decoder decoder;
  text->clear();
  decoder.push(raw, text);
  *rest = decoder.held();
}

bool begins_word(std::string_view piece) {
  if (piece.size() < 2 || piece[0] != ' ') return false;
  const auto letter = static_cast<unsigned char>(piece[1]);
  if (letter < 0x80) return (letter | 0x20) >= 'a' && (letter | 0x20) <= 'z';
  // The byte as a character of Latin-1, as the original has it.
  return letter == 0xAA || letter == 0xB5 || letter == 0xBA || (letter >= 0xC0 && letter != 0xD7 && letter != 0xF7);
}

}  // namespace

TextBridge::TextBridge(const Codec& target, const Codec& draft, VocabularyMaps& maps, std::vector<int32_t> opening)
    : target_(target), draft_(draft), maps_(maps), opening_(std::move(opening)), closed_(opening_) {
  marks_.emplace_back(0, opening_.size());
}

Status TextBridge::begin(Span<const int32_t> tokens, size_t kept) {
  while (marks_.back().first > kept) marks_.pop_back();
  closed_.resize(marks_.back().second);
  open_.clear();
  return commit(tokens.from(marks_.back().first));
}

Status TextBridge::commit(Span<const int32_t> tokens) {
  for (int32_t token : tokens) {
    piece_.clear();
    target_.append_piece(token, &piece_);
    if (piece_.empty()) {
      EDGEDEC_TRY(close());
      control(token);
      continue;
    }
    const size_t count = open_.size();
    bool over = count >= kStretch && begins_word(piece_);
    if (!over && count >= kLongest) {
      std::string rest;
      spell_open();
      whole_text(spelled_, &text_, &rest);
      over = rest.empty();
    }
    if (over) EDGEDEC_TRY(close());
    open_.push_back(token);
  }
  return {};
}

Status TextBridge::read(Span<const int32_t>* ids) {
  spell_open();
  whole_text(spelled_, &text_, &half_);
  cuts_.clear();
  all_ = closed_;
  if (!text_.empty()) EDGEDEC_TRY(draft_.encode_inside(text_, &all_));
  *ids = all_;
  return {};
}

bool TextBridge::ends(int32_t token) {
  piece_.clear();
  draft_.append_piece(token, &piece_);
  return piece_.empty();
}

// Each path is a text, and another path may continue it into another token. So a target token is as probable as all paths
// together that are tokenised so, each counted with the probability that the text goes on along it and then along none that
// was drafted.
Status TextBridge::in_target_ids(const TreeBuilder& sketch, TreeBuilder* draft) {
  draft->clear();
  const std::vector<double> ends = sketch.ends();
  for (size_t node = 0; node < ends.size(); ++node) {
    if (!(ends[node] > kTrifle)) continue;
    sketch.spelled(static_cast<int>(node), &path_);
    EDGEDEC_TRY(say(path_, ends[node], draft));
  }
  return {};
}

Status TextBridge::say(Span<const int32_t> tokens, double probability, TreeBuilder* draft) {
  EDGEDEC_TRY(cut(tokens));
  int parent = kRoot;
  for (int32_t token : cut_.tokens) parent = draft->add(token, parent, probability);
  const int32_t end = tokens[tokens.size() - 1];
  if (!cut_.whole || !ends(end)) return {};
  if (const int32_t last = to_target_id(end); last >= 0) draft->add(last, parent, probability);
  return {};
}

Status TextBridge::length(Span<const int32_t> tokens, int64_t* count) {
  EDGEDEC_TRY(cut(tokens));
  *count = static_cast<int64_t>(cut_.tokens.size());
  return {};
}

// Finds the target's tokens that spell `tokens`, and whether they do so to the last byte.
//
// They stop where the target's tokenizer spells something else, or crosses the end of the committed text. A character that
// the committed text ends inside of belongs to that text.
Status TextBridge::cut(Span<const int32_t> tokens) {
  spelled_.clear();
  for (int32_t token : tokens) draft_.append_piece(token, &spelled_);
  for (const auto& [text, known] : cuts_) {
    if (text != spelled_) continue;
    cut_ = known;
    return {};
  }
  EDGEDEC_TRY(cut_text());
  cuts_.emplace_back(spelled_, cut_);
  return {};
}

Status TextBridge::cut_text() {
  cut_.tokens.clear();
  cut_.whole = false;
  if (spelled_.compare(0, half_.size(), half_) != 0) return {};
  std::string rest;
  whole_text(spelled_, &text_, &rest);
  encoded_.clear();
  if (!text_.empty()) EDGEDEC_TRY(target_.encode_inside(text_, &encoded_));
  size_t done = 0;
  for (int32_t token : encoded_) {
    piece_.clear();
    target_.append_piece(token, &piece_);
    if (piece_.empty() || spelled_.compare(done, piece_.size(), piece_) != 0) return {};
    const size_t begun = done;
    done += piece_.size();
    if (begun >= half_.size()) cut_.tokens.push_back(token);
    else if (done > half_.size()) return {};
  }
  cut_.whole = rest.empty() && done == spelled_.size();
  return {};
}

// Takes over a control token, where the drafter has one of the same role.
void TextBridge::control(int32_t token) {
  const int32_t mine = maps_.to_draft(token);
  const bool first = marks_.size() == 1 && opening_.size() == 1 && opening_[0] == mine;
  if (mine >= 0 && !first) closed_.push_back(mine);
  marks_.emplace_back(marks_.back().first + 1, closed_.size());
}

// Ends the stretch: its text is tokenised for the last time.
Status TextBridge::close() {
  if (open_.empty()) return {};
  spell_open();
  EDGEDEC_TRY(draft_.encode_inside(valid_utf8(spelled_), &closed_));
  marks_.emplace_back(marks_.back().first + open_.size(), closed_.size());
  open_.clear();
  return {};
}

void TextBridge::spell_open() {
  spelled_.clear();
  for (int32_t token : open_) target_.append_piece(token, &spelled_);
}

size_t TextBridge::nbytes() const {
  const size_t ids = closed_.capacity() + open_.capacity() + all_.capacity() + encoded_.capacity();
  return ids * sizeof(int32_t) + marks_.capacity() * sizeof marks_[0] + maps_.nbytes();
}

}  // namespace edgedec::engine
