// A rendered prompt with texts from outside in it: edgedec/text/control_tokens.py.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace edgedec::engine {

// `literal`: the bytes, ascending, that no control token may contain, because a text from outside begins like one there.
// The text is UTF-8.
struct GuardedText {
  std::string text;
  std::vector<size_t> literal;

  // The text behind the first `bytes` bytes.
  GuardedText behind(size_t bytes) const {
    GuardedText rest = {text.substr(bytes), {}};
    for (const size_t at : literal) {
      if (at >= bytes) rest.literal.push_back(at - bytes);
    }
    return rest;
  }
};

}  // namespace edgedec::engine
