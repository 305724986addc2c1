// Numbers by name, in a sorted array: a phone's library has no C++ runtime, which the standard maps call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace edgedec::ort {

// Values of a graph beyond which nobody looks for runs of ops: the largest models have some thousands.
constexpr size_t kMostValues = 1 << 14;

// `Name`: std::string, or std::string_view for names that outlive it.
template <class Name>
class Numbers {
 public:
  // False where the name is there already; its number stays.
  bool add(std::string_view name, size_t number) {
    const auto at = place(name);
    if (at != all_.end() && at->first == name) return false;
    all_.emplace(at, Name(name), number);
    return true;
  }

  // The number of that name, or null.
  size_t* find(std::string_view name) {
    const auto at = place(name);
    return at != all_.end() && at->first == name ? &at->second : nullptr;
  }

 private:
  auto place(std::string_view name) {
    return std::lower_bound(all_.begin(), all_.end(), name, [](const auto& one, std::string_view n) { return one.first < n; });
  }

  std::vector<std::pair<Name, size_t>> all_;
};

}  // namespace edgedec::ort
