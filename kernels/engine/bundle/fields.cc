#include "engine/bundle/fields.h"

#include <algorithm>

#include "engine/base/files.h"
#include "core/base/format.h"
#include "engine/base/sha256.h"
#include "core/base/utf8.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr int64_t kMostWhole = 0x7FFFFFFF;
constexpr std::string_view kSeal = "sha256";

// Ranges of characters that are no signs: controls, spaces beside the usual one, marks of direction, private ones.
constexpr uint32_t kUnseen[][2] = {
    {0x00, 0x1F}, {0x7F, 0xA0}, {0xAD, 0xAD}, {0x600, 0x605}, {0x61C, 0x61C}, {0x6DD, 0x6DD}, {0x70F, 0x70F},
    {0x1680, 0x1680}, {0x180E, 0x180E}, {0x2000, 0x200F}, {0x2028, 0x202F}, {0x205F, 0x206F}, {0x3000, 0x3000},
    {0xD800, 0xF8FF}, {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0x1D173, 0x1D17A}, {0xE0000, 0xE00FF},
    {0xF0000, 0xFFFFFFFF}};

bool file_name(std::string_view name) {
  const auto letter = [](char one) {
    return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9');
  };
  if (name.empty() || name.size() > 100 || !letter(name[0])) return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char one) { return letter(one) || one == '.' || one == '_' || one == '-'; });
}

Status leads_outside(const FolderKind& kind, const std::string& folder, std::string_view name) {
  if (!leads_out(folder, path_in(folder, name))) return {};
  return {Code::kBadFile, std::string(name) + " of the " + kind.noun + " leads out of it", "put the file itself there"};
}

}  // namespace

bool printable(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const uint32_t code = next_utf8(text, &at, true);
    for (const auto& range : kUnseen)
      if (code >= range[0] && code <= range[1]) return false;
  }
  return true;
}

Status FolderKind::broken(std::string_view why) const {
  return {Code::kBadFile, std::string(manifest) + " of the " + noun + " is broken: " + std::string(why), mend};
}

Status FolderKind::read(const std::string& folder, std::string* text) const {
  EDGEDEC_TRY(leads_outside(*this, folder, manifest));
  const Status found = read_file(path_in(folder, manifest), kMostBytes, text);
  if (found.code() == Code::kNotFound)
    return {Code::kNotFound, "no EdgeDec " + std::string(noun) + " at " + folder, "it has no " + std::string(manifest)};
  return found;
}

Status FolderKind::files(JsonValue table, std::vector<FileEntry>* entries) const {
  entries->clear();
  for (size_t i = 0; i < table.size(); ++i) {
    const std::string name(table.at(i).key());
    if (!file_name(name) || name == manifest)
      return broken(quoted(name) + " is not the name of a file of a " + std::string(noun));
    const ManifestFields entry(*this, "file '" + name + "'", table.at(i));
    FileEntry found{name, 0, {}};
    EDGEDEC_TRY(entry.check());
    EDGEDEC_TRY(entry.byte_count("bytes", &found.bytes));
    EDGEDEC_TRY(entry.sha256("sha256", &found.sha256));
    entries->push_back(std::move(found));
  }
  return {};
}

Status FolderKind::check(const std::string& folder, const FileEntry& entry, bool verify) const {
  EDGEDEC_TRY(leads_outside(*this, folder, entry.name));
  const std::string path = path_in(folder, entry.name);
  const int64_t size = file_size(path);
  if (size < 0) return {Code::kBadFile, "the " + std::string(noun) + " lacks " + entry.name, mend};
  if (size != entry.bytes)
    return {Code::kBadFile, entry.name + " of the " + noun + " has " + decimal(size) + " bytes, not " + decimal(entry.bytes),
            mend};
  FileReader readable;
  EDGEDEC_TRY(readable.open(path));
  if (!verify) return {};
  std::string hash;
  EDGEDEC_TRY(sha256_of_file(path, &hash));
  if (hash == entry.sha256) return {};
  return {Code::kBadFile, entry.name + " of the " + noun + " fails its SHA-256", mend};
}

Status ManifestFields::check() const { return data_.is_object() ? Status() : kind_.broken(where_ + " is not an object"); }

Status ManifestFields::check_seal(Span<const std::string_view> known) const {
  if (has(kSeal)) {
    const bool right = data_[kSeal].text() == sha256_of(data_.canonical(kSeal));
    return right ? Status() : kind_.broken("its facts fail the SHA-256 in it");
  }
  std::string strange;
  for (size_t i = 0; i < data_.size(); ++i) {
    const std::string key(data_.at(i).key());
    const bool is_known = std::find(known.begin(), known.end(), key) != known.end();
    if (!is_known && (strange.empty() || key < strange)) strange = key;
  }
  return strange.empty() ? Status() : kind_.broken(quoted(strange) + " is none of its fields");
}

Status ManifestFields::wrong(std::string_view key, std::string_view why) const {
  return kind_.broken("'" + std::string(key) + "' of " + where_ + " " + std::string(why));
}

Status ManifestFields::get(std::string_view key, JsonValue* value) const {
  *value = data_[key];
  return value->missing() ? kind_.broken(where_ + " lacks '" + std::string(key) + "'") : Status();
}

Status ManifestFields::text(std::string_view key, std::string* value) const {
  JsonValue found;
  EDGEDEC_TRY(get(key, &found));
  const std::string_view text = found.text().value_or("");
  if (text.empty() || characters(text) > 1000 || !printable(text)) return wrong(key, "is not a short printable text");
  *value = text;
  return {};
}

Status ManifestFields::flag(std::string_view key, bool* value) const {
  JsonValue found;
  EDGEDEC_TRY(get(key, &found));
  if (!found.flag()) return wrong(key, "is not true or false");
  *value = *found.flag();
  return {};
}

Status ManifestFields::number(std::string_view key, int64_t least, int64_t most, const char* why, int64_t* value) const {
  JsonValue found;
  EDGEDEC_TRY(get(key, &found));
  const std::optional<int64_t> whole = found.whole();
  if (!whole || *whole < least || *whole > most) return wrong(key, whole == 0 ? "is zero" : why);
  *value = *whole;
  return {};
}

Status ManifestFields::token_id(std::string_view key, int64_t* value) const {
  return number(key, 0, kMostWhole, "is not a whole number from 0 on", value);
}

Status ManifestFields::count(std::string_view key, int64_t* value) const {
  return number(key, 1, kMostWhole, "is not a whole number from 0 on", value);
}

Status ManifestFields::byte_count(std::string_view key, int64_t* value) const {
  return number(key, 0, INT64_MAX, "is not a number of bytes", value);
}

Status ManifestFields::sha256(std::string_view key, std::string* value) const {
  JsonValue found;
  EDGEDEC_TRY(get(key, &found));
  const std::string_view text = found.text().value_or("");
  const bool digits = std::all_of(text.begin(), text.end(),
                                  [](char one) { return (one >= '0' && one <= '9') || (one >= 'a' && one <= 'f'); });
  if (text.size() != 64 || !digits) return wrong(key, "is not a SHA-256 in lower-case hexadecimal digits");
  *value = text;
  return {};
}

Status ManifestFields::maybe_id(std::string_view key, int64_t* value) const {
  *value = -1;
  return has(key) && data_[key].is_null() ? Status() : token_id(key, value);
}

Status ManifestFields::token_ids(std::string_view key, std::vector<int32_t>* value) const {
  JsonValue found;
  EDGEDEC_TRY(get(key, &found));
  if (!found.is_list() || found.size() > 1000) return wrong(key, "is not a short list");
  value->clear();
  for (size_t i = 0; i < found.size(); ++i) {
    const int64_t id = found.at(i).whole().value_or(-1);
    if (id < 0 || id > kMostWhole) return wrong(key, "is not a whole number from 0 on");
    value->push_back(static_cast<int32_t>(id));
  }
  return {};
}

Status ManifestFields::object(std::string_view key, JsonValue* value) const {
  EDGEDEC_TRY(get(key, value));
  return value->is_object() ? Status() : wrong(key, "is not an object");
}

Status ManifestFields::list(std::string_view key, JsonValue* value) const {
  EDGEDEC_TRY(get(key, value));
  return value->is_list() ? Status() : wrong(key, "is no list");
}

Status ManifestFields::scalars(std::string_view key, JsonValue* value) const {
  EDGEDEC_TRY(object(key, value));
  for (size_t i = 0; i < value->size(); ++i)
    if (value->at(i).is_list() || value->at(i).is_object()) return wrong(key, "holds more than texts and numbers");
  return {};
}

Status ManifestFields::below(std::string_view key, ManifestFields* fields) const {
  JsonValue found;
  EDGEDEC_TRY(object(key, &found));
  fields->kind_ = kind_;
  fields->where_ = key;
  fields->data_ = found;
  return {};
}

}  // namespace edgedec::engine
