// Stop strings in a stream: text is released once it can no longer be part of one. edgedec/text/stop_strings.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"

namespace edgedec::engine {

// Texts are whole characters of UTF-8, so that bytes are cut where characters are.
class StopStrings {
 public:
  // kUsage: a stop string is empty.
  static Status of(Span<const std::string> stops, StopStrings* found);

  // Adds a piece; returns the text that is safe to show now.
  std::string push(std::string_view text);

  // Ends the stream; returns the text that was held back.
  std::string flush() { return release(held_.size(), false); }

  // Whether a stop string was found; all text after it is dropped.
  bool hit() const { return hit_; }

 private:
  size_t undecided() const;
  std::string release(size_t length, bool forget);

  std::vector<std::string> stops_;
  std::string held_;
  bool hit_ = false;
};

}  // namespace edgedec::engine
