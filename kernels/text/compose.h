// NFC, the composed normal form of Unicode, over the tables that edgedec/text/characters.py makes.
#pragma once

#include <string_view>

#include "common/array.h"
#include "text/bpe.h"

namespace edgedec::text {

// Writes the composed form of `text`. Returns 0, kDamaged or kNoMemory.
int64_t compose(const Table& table, std::string_view text, Array<char>* out);

}  // namespace edgedec::text
