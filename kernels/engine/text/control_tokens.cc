#include "engine/text/control_tokens.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "core/base/utf8_decoder.h"

namespace edgedec::engine {
namespace {

// Noncharacters of Unicode: never part of real text, left alone by every template.
constexpr uint32_t kFirstMarker = 0xFDD0, kMarkers = 32;

bool before(const std::pair<std::string_view, int32_t>& one, std::string_view text) { return one.first < text; }

std::string guarded(const ControlFinder& finder, std::string_view text, std::string_view marker) {
  std::string out;
  size_t done = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!finder.starts(text[at]) || (!finder.matches(text, at) && !finder.cut_off(text, at))) continue;
    const size_t behind = at + character_bytes(text.substr(at));
    out.append(text.substr(done, behind - done)).append(marker);
    done = behind;
  }
  return out.append(text.substr(done));
}

}  // namespace

ControlFinder::ControlFinder(const ControlTokens& control) : control_(control) {
  for (const auto& [text, id] : control) {
    std::vector<size_t>& lengths = lengths_[static_cast<unsigned char>(text[0])];
    if (std::find(lengths.begin(), lengths.end(), text.size()) == lengths.end()) lengths.push_back(text.size());
  }
  for (std::vector<size_t>& lengths : lengths_) std::sort(lengths.rbegin(), lengths.rend());
}

bool ControlFinder::matches(std::string_view text, size_t at) const {
  for (const size_t length : lengths_[static_cast<unsigned char>(text[at])]) {
    if (length > text.size() - at) continue;
    const std::string_view part = text.substr(at, length);
    const auto found = std::lower_bound(control_.begin(), control_.end(), part, before);
    if (found != control_.end() && found->first == part) return true;
  }
  return false;
}

bool ControlFinder::cut_off(std::string_view text, size_t at) const {
  const std::string_view tail = text.substr(at);
  if (tail.size() > lengths_[static_cast<unsigned char>(text[at])][0]) return false;
  const auto found = std::lower_bound(control_.begin(), control_.end(), tail, before);
  return found != control_.end() && found->first.substr(0, tail.size()) == tail;
}

Status guard(const ControlTokens& control, std::vector<std::string>* texts, std::string* marker) {
  marker->clear();
  const ControlFinder finder(control);
  std::string found;
  for (uint32_t code = kFirstMarker; found.empty() && code < kFirstMarker + kMarkers; ++code) {
    append_utf8(code, &found);
    for (const std::string& text : *texts) {
      if (text.find(found) != text.npos) {
        found.clear();
        break;
      }
    }
  }
  if (found.empty()) {
    return {Code::kUsage, "the messages contain every Unicode noncharacter from U+FDD0 to U+FDEF", "remove them"};
  }
  for (std::string& text : *texts) {
    std::string changed = guarded(finder, text, found);
    if (changed.size() == text.size()) continue;
    text = std::move(changed);
    *marker = found;
  }
  return {};
}

GuardedText without_markers(std::string text, std::string_view marker) {
  if (marker.empty()) return {std::move(text), {}};
  GuardedText out;
  for (size_t done = 0;;) {
    const size_t at = text.find(marker, done);
    out.text.append(text, done, at == text.npos ? at : at - done);
    if (at == text.npos) return out;
    size_t before = out.text.size();
    while (before && (out.text[--before] & 0xC0) == 0x80) {
    }
    if (!out.text.empty()) out.literal.push_back(before);
    done = at + marker.size();
  }
}

}  // namespace edgedec::engine
