// The files of engine/base/files.h, in memory: edgedec.wasm has no other files than those that JavaScript hands over.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/base/files.h"
#include "core/base/format.h"
#include "engine/base/sha256.h"
#include "engine/web/edgedec_web.h"

namespace edgedec::engine {
namespace {

struct Held {
  std::string name;
  uint8_t* data;
  size_t size;
};

std::vector<Held>& all() {
  static std::vector<Held> files;
  return files;
}

const Held* find(std::string_view name) {
  for (const Held& file : all())
    if (file.name == name) return &file;
  return nullptr;
}

Status missing(const std::string& path) {
  return {Code::kNotFound, "cannot read " + path + ": there is no such file", "hand it over first"};
}

Status read_only() { return {Code::kUnsupported, "files cannot be written here"}; }

}  // namespace

// Names are those of the bundle: the folder is the empty one.
std::string path_in(std::string_view folder, std::string_view name) {
  return folder.empty() ? std::string(name) : std::string(folder) + "/" + std::string(name);
}

int64_t file_size(const std::string& path) {
  const Held* file = find(path);
  return file ? static_cast<int64_t>(file->size) : -1;
}

bool leads_out(const std::string&, const std::string&) { return false; }

Status read_file(const std::string& path, size_t most, std::string* content) {
  const Held* file = find(path);
  if (!file) return missing(path);
  if (file->size > most) return {Code::kBadFile, path + " has more than " + decimal(uint64_t{most}) + " bytes"};
  content->assign(reinterpret_cast<const char*>(file->data), file->size);
  return {};
}

Status sha256_of_file(const std::string& path, std::string* hex) {
  const Held* file = find(path);
  if (!file) return missing(path);
  *hex = sha256_of({reinterpret_cast<const char*>(file->data), file->size});
  return {};
}

Status make_folder(const std::string&) { return read_only(); }
Status remove_file(const std::string&) { return read_only(); }
Status write_file(const std::string&, std::string_view) { return read_only(); }

Status MappedFile::open(const std::string& path) {
  const Held* file = find(path);
  if (!file) return missing(path);
  data_ = file->data;
  size_ = file->size;
  return {};
}

void MappedFile::close() {
  data_ = nullptr;
  size_ = 0;
}

FileReader::~FileReader() = default;

Status FileReader::open(const std::string& path) {
  const Held* file = find(path);
  if (!file) return missing(path);
  path_ = path;
  size_ = file->size;
  return {};
}

Status FileReader::read(void* data, size_t size) {
  const Held* file = find(path_);
  if (!file || size > left()) return {Code::kBadFile, path_ + " is too short"};
  std::memcpy(data, file->data + at_, size);
  at_ += size;
  return {};
}

}  // namespace edgedec::engine

extern "C" int32_t edgedec_web_file(const char* name, size_t name_size, uint8_t* data, size_t size) {
  using edgedec::engine::all;
  const std::string_view wanted(name, name_size);
  auto& files = all();
  const auto found = std::find_if(files.begin(), files.end(), [&](const auto& one) { return one.name == wanted; });
  if (found != files.end()) {
    std::free(found->data);
    files.erase(found);
  }
  if (data) files.push_back({std::string(wanted), data, size});
  return 0;
}
