// Drafters that need no model but a table of what they read (core/tables): edgedec/draft/native.py and
// edgedec/drafters/tables.py.
#pragma once

#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/decode/drafter.h"

namespace edgedec::engine {

// Bytes of learned data beyond which the drafter of this name drafts no better; 0 for no such drafter.
int64_t useful_bytes(std::string_view name);

// Makes the drafter of this name, which learns at most `nbytes` bytes.
Status make_table_drafter(std::string_view name, int64_t nbytes, std::unique_ptr<Drafter>* made);

// Gives the drafters their prepared tables out of a folder of the kind "tables" that belongs to the weights with this
// hash. Fails for damaged tables, and those of another model; the drafters then know what they knew.
Status restore_prepared(const std::string& folder, std::string_view target_sha256, int64_t vocab_size, Drafters* drafters);

// The bytes that a packed table holds: their number in four bytes, and zlib's packing of them.
Status read_table(Span<const uint8_t> packed, const std::string& name, std::vector<uint8_t>* saved);

}  // namespace edgedec::engine
