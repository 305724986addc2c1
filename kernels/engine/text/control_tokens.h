// Guards against control tokens in chat messages: their texts stay texts. edgedec/text/control_tokens.py.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "engine/text/guarded_text.h"

namespace edgedec::engine {

using ControlTokens = std::vector<std::pair<std::string_view, int32_t>>;  // {text, id}, in the order of the texts

// Finds the texts of control tokens.
class ControlFinder {
 public:
  explicit ControlFinder(const ControlTokens& control);

  // Whether a control token starts with this byte.
  bool starts(char byte) const { return !lengths_[static_cast<unsigned char>(byte)].empty(); }

  // Whether there is a control token at `at`.
  bool matches(std::string_view text, size_t at) const;

  // Whether `text` from `at` to its end is the beginning of a control token.
  bool cut_off(std::string_view text, size_t at) const;

 private:
  const ControlTokens& control_;
  std::vector<size_t> lengths_[256];  // of the control tokens with each first byte, the longest first
};

// Puts a marker behind the first character of each control token in the texts, and of a beginning of one at their ends.
// `marker` is empty if nothing changed. kUsage: the texts use up all possible markers.
Status guard(const ControlTokens& control, std::vector<std::string>* texts, std::string* marker);

// Takes the markers out of a rendered text. The character in front of each is literal.
GuardedText without_markers(std::string text, std::string_view marker);

}  // namespace edgedec::engine
