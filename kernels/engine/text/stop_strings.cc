#include "engine/text/stop_strings.h"

#include <algorithm>

#include "core/base/utf8_decoder.h"

namespace edgedec::engine {

Status StopStrings::of(Span<const std::string> stops, StopStrings* found) {
  *found = {};
  for (const std::string& stop : stops) {
    if (stop.empty()) return {Code::kUsage, "a stop string must not be empty", "give none to have none"};
    found->stops_.push_back(valid_utf8(stop));
  }
  return {};
}

std::string StopStrings::push(std::string_view text) {
  if (hit_) return {};
  held_.append(text);
  size_t first_end = held_.npos, start = held_.npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == held_.npos) continue;
    const size_t end = at + stop.size();
    if (end > first_end || (end == first_end && at >= start)) continue;
    first_end = end;
    start = at;
  }
  if (start == held_.npos) return release(held_.size() - undecided(), false);
  hit_ = true;
  return release(start, true);
}

// The longest end of the held text that begins a stop string.
size_t StopStrings::undecided() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) longest = length;
    }
  }
  return longest;
}

std::string StopStrings::release(size_t length, bool forget) {
  std::string released = held_.substr(0, length);
  held_.erase(0, forget ? held_.npos : length);
  return released;
}

}  // namespace edgedec::engine
