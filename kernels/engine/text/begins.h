// The beginning of a text.
#pragma once

#include <string_view>

namespace edgedec::engine {

inline bool begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

}  // namespace edgedec::engine
