// A tokenizer, as far as a bridge between two vocabularies asks one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace edgedec::engine {

class Codec {
 public:
  // Appends the bytes that a token adds to a text: none for control tokens and ids without a token.
  virtual void append_piece(int64_t token, std::string* bytes) const = 0;
  // Appends the ids of text that continues another text: without BOS, without a space in front.
  virtual Status encode_inside(std::string_view text, std::vector<int32_t>* ids) const = 0;

 protected:
  ~Codec() = default;
};

}  // namespace edgedec::engine
