#include "engine/drafters/prepared_maps.h"

#include <cstring>

#include "engine/base/files.h"

namespace edgedec::engine {
namespace {

Status read_map(const std::string& folder, const char* name, int64_t size, int64_t most, std::vector<int32_t>* map) {
  std::string data;
  const size_t bytes = static_cast<size_t>(size) * sizeof(int32_t);
  if (!read_file(path_in(folder, name), bytes, &data).ok() || data.size() != bytes)
    return {Code::kBadFile, std::string(name) + " is no map of these vocabularies", "export the folder again"};
  map->resize(static_cast<size_t>(size));
  std::memcpy(map->data(), data.data(), bytes);
  for (int32_t id : *map)
    if (id < -1 || id >= most)
      return {Code::kBadFile, std::string(name) + " has an id outside the vocabulary", "export the folder again"};
  return {};
}

}  // namespace

Status PreparedMaps::read(const std::string& folder, int64_t target_size, int64_t draft_size) {
  EDGEDEC_TRY(read_map(folder, "to_target.i32", draft_size, target_size, &to_target_));
  return read_map(folder, "to_draft.i32", target_size, draft_size, &to_draft_);
}

}  // namespace edgedec::engine
