#include "engine/drafters/device_folder.h"

#include <string_view>

#include "engine/base/files.h"
#include "core/base/format.h"

namespace edgedec::engine {
namespace {

constexpr FolderKind kFolder = {"device.json", "device folder", "export it again"};
constexpr std::string_view kFields[] = {"format", "version", "device", "target", "drafters", "files"};
constexpr int64_t kVersion = 1;

// Whether a path is a folder right below `top`, of plain characters.
bool is_inside(std::string_view path, std::string_view top) {
  if (path.size() <= top.size() + 1 || path.substr(0, top.size()) != top || path[top.size()] != '/') return false;
  const std::string_view name = path.substr(top.size() + 1);
  return name.find_first_of("/\\") == name.npos && name != "." && name != ".." && printable(name);
}

Status read_map_files(JsonValue table, const std::string& maps, std::vector<FileEntry>* files) {
  for (const char* name : {"to_target.i32", "to_draft.i32"}) {
    const std::string path = maps + "/" + name;
    const ManifestFields entry(kFolder, "file '" + path + "'", table[path]);
    FileEntry found{name, 0, {}};
    EDGEDEC_TRY(entry.check());
    EDGEDEC_TRY(entry.byte_count("bytes", &found.bytes));
    EDGEDEC_TRY(entry.sha256("sha256", &found.sha256));
    files->push_back(std::move(found));
  }
  return {};
}

Status read_model(const std::string& folder, JsonValue one, JsonValue files, CarriedModel* model) {
  const std::string_view path = one["path"].text().value_or("");
  const std::string_view maps = one["maps"].text().value_or("");
  if (!is_inside(path, "models") || (!maps.empty() && !is_inside(maps, "maps")))
    return kFolder.broken("the folder of its model is not one of models");
  model->name = path.substr(path.find('/') + 1);
  model->bundle = path_in(folder, std::string(path).c_str());
  if (maps.empty()) return {};
  model->maps = path_in(folder, std::string(maps).c_str());
  return read_map_files(files, std::string(maps), &model->map_files);
}

}  // namespace

Status carried_model(const std::string& folder, CarriedModel* model) {
  *model = {};
  if (file_size(path_in(folder, kFolder.manifest)) < 0) return {};
  std::string text;
  EDGEDEC_TRY(kFolder.read(folder, &text));
  Json json;
  if (!json.parse(text)) return kFolder.broken("it is not JSON");
  const ManifestFields top(kFolder, "the manifest", json.root());
  EDGEDEC_TRY(top.check());
  int64_t version = 0;
  EDGEDEC_TRY(top.count("version", &version));
  if (version != kVersion)
    return {Code::kUnsupported,
            "the device folder has version " + decimal(version) + ", and this EdgeDec reads version " + decimal(kVersion),
            "export it again"};
  EDGEDEC_TRY(top.check_seal({kFields, std::size(kFields)}));
  const JsonValue drafters = json.root()["drafters"];
  if (!drafters.is_list()) return kFolder.broken("its drafters are no list");
  for (size_t at = 0; at < drafters.size(); ++at)
    if (drafters.at(at)["kind"].text() == std::string_view("model"))
      return read_model(folder, drafters.at(at), json.root()["files"], model);
  return {};
}

Status check_maps(const std::string& maps, Span<const FileEntry> files) {
  for (const FileEntry& file : files) EDGEDEC_TRY(kFolder.check(maps, file, true));
  return {};
}

}  // namespace edgedec::engine
