#include "engine/decode/table_drafters.h"

#include <algorithm>
#include <cstring>

#include "core/decode/table_drafter.h"
#include "engine/base/files.h"
#include "core/base/format.h"
#include "engine/base/inflate.h"
#include "engine/bundle/drafter_manifest.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostTableBytes = 4'000'000;  // of a table, packed or not
constexpr int64_t kTokenBytes = 10;       // of a token that lookup knows

class OwnTable final : public TableDrafter {
 public:
  OwnTable(const char* name, draft::Drafter* table) : TableDrafter(*table, name), owner_(table) {}

  Status restore(Span<const uint8_t> data, int64_t vocab_size) override {
    switch (table_.restore(data.data(), data.size(), vocab_size)) {
      case draft::Drafter::Restored::kDone: pretrained = true; return {};
      case draft::Drafter::Restored::kSize: return wrong("not of a table of this size");
      case draft::Drafter::Restored::kToken: return wrong("tokens outside the vocabulary");
      default: return wrong("answers more probable than certain");
    }
  }

 private:
  Status wrong(const char* why) const { return {Code::kBadFile, std::string(name_) + ": " + why}; }

  std::unique_ptr<draft::Drafter> owner_;
};

Status restore_one(const std::string& folder, int64_t vocab_size, Drafter* drafter) {
  const std::string name = std::string(drafter->name()) + ".table";
  std::string packed;
  const Status read = read_file(path_in(folder, name), kMostTableBytes, &packed);
  if (read.code() == Code::kNotFound) return {};
  EDGEDEC_TRY(read);
  std::vector<uint8_t> saved;
  EDGEDEC_TRY(read_table({reinterpret_cast<const uint8_t*>(packed.data()), packed.size()}, name, &saved));
  return drafter->restore(Span<const uint8_t>(saved), vocab_size);
}

}  // namespace

int64_t useful_bytes(std::string_view name) {
  if (name == "lookup") return kTokenBytes << 16;
  return name == "recycling" ? 1 << 21 : 0;
}

Status make_table_drafter(std::string_view name, int64_t nbytes, std::unique_ptr<Drafter>* made) {
  const bool lookup = name == "lookup";
  draft::Drafter* drafter = lookup ? draft::make_lookup(nbytes / kTokenBytes) : draft::make_recycling(nbytes);
  if (!drafter)
    return {Code::kNoMemory, "there is no memory for the drafter " + std::string(name), "draft without it"};
  made->reset(new OwnTable(lookup ? "lookup" : "recycling", drafter));
  return {};
}

Status read_table(Span<const uint8_t> packed, const std::string& name, std::vector<uint8_t>* saved) {
  if (packed.size() < 4) return {Code::kBadFile, name + " is too short"};
  const size_t length = packed[0] | packed[1] << 8 | packed[2] << 16 | static_cast<size_t>(packed[3]) << 24;
  if (length > kMostTableBytes) return {Code::kBadFile, name + " holds more than " + decimal(uint64_t{kMostTableBytes}) + " bytes"};
  saved->assign(length, 0);
  if (!unpack_zlib(packed.from(4), {saved->data(), length}))
    return {Code::kBadFile, name + " does not hold the " + decimal(uint64_t{length}) + " bytes that it states"};
  return {};
}

Status restore_prepared(const std::string& folder, std::string_view target_sha256, int64_t vocab_size, Drafters* drafters) {
  DrafterManifest manifest;
  EDGEDEC_TRY(DrafterManifest::load(folder, true, &manifest));
  EDGEDEC_TRY(manifest.check_for("tables", target_sha256, vocab_size));
  for (const auto& drafter : *drafters) EDGEDEC_TRY(restore_one(folder, vocab_size, drafter.get()));
  return {};
}

}  // namespace edgedec::engine
