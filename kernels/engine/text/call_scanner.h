// Text of a reply in which a parser looks for calls of tools: edgedec/text/tool_calls/scanner.py.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/span.h"

namespace edgedec::engine {

// A call that a reply asks for; `arguments` is JSON, cut where the reply was.
struct ToolCall {
  std::string name, arguments;
};

// Functions of a parser return false where they cannot go on: `waits()` tells whether more text could help; else the text is
// no call. Text read since the last `settle` is read again then.
class CallScanner {
 public:
  using Marks = std::initializer_list<std::string_view>;

  void add(std::string_view text) { text_.append(text); }
  void end() { ended_ = true; }
  bool ended() const { return ended_; }
  bool waits() const { return waits_; }
  // The text that is certain to be none of a call since the last time.
  std::string take_content();
  const std::vector<ToolCall>& calls() const { return calls_; }
  // Text that is there and not settled yet, and that behind the place that is read.
  size_t pending() const { return text_.size() - safe_.at; }
  std::string_view rest() const { return std::string_view(text_).substr(at_); }

  // Keeps all that was read; `again` goes back to there.
  void settle();
  void again();

  // Keeps the text from here on as that of a call; `release` gives it out as content.
  void hold() { held_ = at_; }
  void release();
  void begin(std::string name);
  std::string* arguments() { return &calls_.back().arguments; }

  void skip(size_t bytes) { at_ += bytes; }
  void put_back(size_t bytes) { at_ -= bytes; }
  bool starts(std::string_view text) const { return rest().substr(0, text.size()) == text; }

  // Gives out text as content up to a mark, and takes that; false at the end, too.
  bool content_until(Span<const std::string_view> marks, size_t* which);
  bool space();
  // Takes the one of `texts` that comes next; -1: none of them.
  bool next_is(Marks texts, int* which);
  // Takes white space and the text that comes next; it is one of `texts`.
  bool expect(Marks texts, int* which = nullptr);
  // Takes text up to a mark, and the mark. `most`: characters in front of it; 0: as many as there are.
  bool until(Marks marks, size_t most, std::string* text, int* which = nullptr);
  // Adds text up to `mark` to `out`, without `keep` right before it; takes both.
  bool pieces_until(std::string_view mark, std::string_view keep, std::string* out);
  // Adds the text of a JSON value to `out`.
  bool value(std::string* out);
  // Waits for more text; false at the end, too.
  bool wait() {
    waits_ = !ended_;
    return false;
  }

 private:
  struct Place {
    size_t at = 0, content = 0, calls = 0;
  };

  std::string text_, content_;
  size_t at_ = 0;
  bool ended_ = false, waits_ = false;
  std::optional<size_t> held_;
  std::vector<ToolCall> calls_;
  Place safe_;
};

}  // namespace edgedec::engine
