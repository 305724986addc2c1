#include "engine/bundle/drafter_manifest.h"

#include <algorithm>

#include "core/base/format.h"

namespace edgedec::engine {
namespace {

constexpr const char* kDrafterFormat = "edgedec-drafter";
constexpr int64_t kDrafterVersion = 1;
constexpr FolderKind kFolder = {"drafter.json", "drafter", "make it again, or remove it"};
constexpr std::string_view kDrafterKinds[] = {"trim", "tables", "head", "mtp", "assistant"};
constexpr std::string_view kDrafterFields[] = {"format", "version", "kind", "target", "files", "facts"};

}  // namespace

Status DrafterManifest::from_json(std::string_view text, DrafterManifest* manifest) {
  *manifest = {};
  Json json;
  if (!json.parse(text)) return kFolder.broken("it is not JSON");
  const ManifestFields top(kFolder, "the manifest", json.root());
  EDGEDEC_TRY(top.check());
  std::string format;
  int64_t version;
  EDGEDEC_TRY(top.text("format", &format));
  if (format != kDrafterFormat) return kFolder.broken(std::string("its format is not '") + kDrafterFormat + "'");
  EDGEDEC_TRY(top.count("version", &version));
  if (version != kDrafterVersion)
    return {Code::kUnsupported,
            "the drafter has version " + decimal(version) + ", and this EdgeDec reads version " + decimal(kDrafterVersion),
            "make the drafter again"};
  EDGEDEC_TRY(top.check_seal({kDrafterFields, std::size(kDrafterFields)}));
  EDGEDEC_TRY(top.text("kind", &manifest->kind));
  if (std::find(std::begin(kDrafterKinds), std::end(kDrafterKinds), manifest->kind) == std::end(kDrafterKinds))
    return kFolder.broken("its kind " + quoted(manifest->kind) + " is none of trim, tables, head, mtp, assistant");
  ManifestFields target = top;
  EDGEDEC_TRY(top.below("target", &target));
  EDGEDEC_TRY(target.text("name", &manifest->target_name));
  EDGEDEC_TRY(target.sha256("sha256", &manifest->target_sha256));
  EDGEDEC_TRY(target.count("vocab_size", &manifest->vocab_size));
  JsonValue table;
  EDGEDEC_TRY(top.object("files", &table));
  EDGEDEC_TRY(kFolder.files(table, &manifest->files));
  EDGEDEC_TRY(top.scalars("facts", &table));
  for (size_t at = 0; at < table.size(); ++at) {
    const JsonValue one = table.at(at);
    if (const std::optional<double> number = one.number()) manifest->numbers.emplace_back(one.key(), *number);
    if (const std::optional<std::string_view> text = one.text()) manifest->texts.emplace_back(one.key(), *text);
  }
  return {};
}

const double* DrafterManifest::number(std::string_view name) const {
  for (const auto& [key, value] : numbers)
    if (key == name) return &value;
  return nullptr;
}

std::string_view DrafterManifest::text(std::string_view name) const {
  for (const auto& [key, value] : texts)
    if (key == name) return value;
  return {};
}

Status DrafterManifest::load(const std::string& folder, bool verify, DrafterManifest* manifest) {
  std::string text;
  EDGEDEC_TRY(kFolder.read(folder, &text));
  EDGEDEC_TRY(from_json(text, manifest));
  for (const FileEntry& entry : manifest->files) EDGEDEC_TRY(kFolder.check(folder, entry, verify));
  return {};
}

Status DrafterManifest::check_for(std::string_view wanted, std::string_view sha256, int64_t vocabulary) const {
  if (kind != wanted) return {Code::kBadFile, "the drafter is of the kind " + kind + ", not " + std::string(wanted)};
  if (target_sha256 != sha256 || vocab_size != vocabulary)
    return {Code::kBadFile, "the drafter belongs to other weights, of " + target_name, "make it again for this model"};
  return {};
}

}  // namespace edgedec::engine
