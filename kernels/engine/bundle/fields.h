// Folders with a manifest in JSON that lists their files, read and checked, trusting nothing: edgedec/disk/listed_files.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/span.h"
#include "core/base/status.h"

namespace edgedec::engine {

// Size and SHA-256 of a file that a manifest lists.
struct FileEntry {
  std::string name;
  int64_t bytes = 0;
  std::string sha256;
};

// A kind of folder with a manifest: the manifest's file name, and words for messages.
struct FolderKind {
  const char* manifest;
  const char* noun;
  const char* mend;  // the hint for one that is broken

  Status broken(std::string_view why) const;
  // Reads the manifest. kNotFound: there is none.
  Status read(const std::string& folder, std::string* text) const;
  // Decodes the entries of files by name.
  Status files(JsonValue table, std::vector<FileEntry>* entries) const;
  // Compares a file with its entry: its size, with `verify` its hash.
  Status check(const std::string& folder, const FileEntry& entry, bool verify) const;
};

// Typed access to one JSON object of a manifest; every failure names the field.
class ManifestFields {
 public:
  ManifestFields(const FolderKind& kind, std::string where, JsonValue data)
      : kind_(kind), where_(std::move(where)), data_(data) {}

  // Fails where the value is no object.
  Status check() const;
  // Fails where the manifest has not the hash of its own facts. Earlier manifests have no hash, and only `known` fields.
  Status check_seal(Span<const std::string_view> known) const;
  bool has(std::string_view key) const { return !data_[key].missing(); }

  Status text(std::string_view key, std::string* value) const;  // short and printable
  Status flag(std::string_view key, bool* value) const;
  Status token_id(std::string_view key, int64_t* value) const;
  Status count(std::string_view key, int64_t* value) const;     // 1 at least
  Status byte_count(std::string_view key, int64_t* value) const;
  Status sha256(std::string_view key, std::string* value) const;
  Status maybe_id(std::string_view key, int64_t* value) const;  // -1 for null
  Status token_ids(std::string_view key, std::vector<int32_t>* value) const;
  Status object(std::string_view key, JsonValue* value) const;
  Status list(std::string_view key, JsonValue* value) const;
  Status scalars(std::string_view key, JsonValue* value) const;  // an object of texts and numbers
  Status below(std::string_view key, ManifestFields* fields) const;
  Status wrong(std::string_view key, std::string_view why) const;

 private:
  Status get(std::string_view key, JsonValue* value) const;
  Status number(std::string_view key, int64_t least, int64_t most, const char* why, int64_t* value) const;

  FolderKind kind_;
  std::string where_;
  JsonValue data_;
};

// Whether all characters of a text can be shown: none steers a terminal or is invisible.
bool printable(std::string_view text);

}  // namespace edgedec::engine
