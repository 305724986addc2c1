#include "engine/capi/loops.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace edgedec::engine {
namespace {

constexpr size_t kLongestPiece = 64, kRepeats = kLoopTail / kLongestPiece, kLeastNumbered = 8;
constexpr size_t kNearTokens = 32, kNearTimes = 3, kNearBefore = 2048;

template <class T>
bool goes_round(const T* first, size_t count, size_t longest) {
  for (size_t period = 1; period <= longest; ++period)
    if (std::equal(first + period, first + count, first)) return true;
  return false;
}

bool is_one_of(char c, std::string_view among) { return among.find(c) != std::string_view::npos; }

// The bytes of the number that a line begins with, and of what belongs to it; 0 where it begins with none.
size_t numbered(std::string_view line) {
  size_t at = 0;
  const auto skip = [&](std::string_view among) {
    const size_t from = at;
    while (at < line.size() && is_one_of(line[at], among)) ++at;
    return at - from;
  };
  skip(" \t");
  if (at < line.size() && is_one_of(line[at], "-*#>")) {
    ++at;
    skip(" \t");
  }
  skip("*");
  if (!skip("0123456789") || at == line.size() || !is_one_of(line[at], ".):")) return 0;
  ++at;
  skip("*");
  return skip(" \t") ? at : 0;
}

void add_words(std::string_view line, std::vector<std::string_view>* words) {
  constexpr std::string_view kSpaces = " \t\n\r\v\f";
  for (size_t at = 0; (at = line.find_first_not_of(kSpaces, at)) != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kSpaces, at), line.size());
    words->push_back(line.substr(at, end - at));
    at = end;
  }
}

// Whether numbered lines go round; the first and the last line may be cut.
bool is_counted(std::string_view tail) {
  std::vector<std::string_view> words;
  size_t found = 0, at = tail.find('\n');
  while (at != std::string_view::npos) {
    const size_t end = tail.find('\n', at + 1);
    if (end == std::string_view::npos) break;
    const std::string_view line = tail.substr(at + 1, end - at - 1);
    const size_t number = numbered(line);
    found += number > 0;
    add_words(line.substr(number), &words);
    at = end;
  }
  return found >= kLeastNumbered && goes_round(words.data(), words.size(), words.size() / kRepeats);
}

// Whether nine in ten of the tail's tokens end a piece that has stood three times before.
bool repeats_nearly(Span<const int32_t> tokens) {
  const size_t recent = std::min(tokens.size(), kLoopTail + kNearBefore);
  if (recent < kNearTokens) return false;
  const int32_t* first = tokens.end() - recent;
  std::vector<size_t> places(recent - kNearTokens + 1);
  std::iota(places.begin(), places.end(), size_t{0});
  const auto same = [&](size_t a, size_t b) { return std::equal(first + a, first + a + kNearTokens, first + b); };
  const auto last = [&](size_t place) { return same(place, places.size() - 1); };
  if (static_cast<size_t>(std::count_if(places.begin(), places.end(), last)) <= kNearTimes) return false;
  const size_t tail = places.size() - std::min(places.size(), kLoopTail);
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
    return std::lexicographical_compare(first + a, first + a + kNearTokens, first + b, first + b + kNearTokens);
  });
  size_t again = 0, before = 0;
  for (size_t at = 0; at < places.size(); ++at) {
    before = at && same(places[at], places[at - 1]) ? before + 1 : 0;
    again += places[at] >= tail && before >= kNearTimes;
  }
  return 10 * again >= 9 * kLoopTail;
}

}  // namespace

bool loops(Span<const int32_t> tokens, std::string_view tail) {
  if (tokens.size() < kLoopTail) return false;
  return goes_round(tokens.end() - kLoopTail, kLoopTail, kLongestPiece) || is_counted(tail) || repeats_nearly(tokens);
}

}  // namespace edgedec::engine
