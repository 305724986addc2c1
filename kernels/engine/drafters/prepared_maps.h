// The maps between two vocabularies, as a folder for a device has them. edgedec/drafters/vocabulary_maps.py.
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/draft/text_bridge.h"

namespace edgedec::engine {

class PreparedMaps final : public VocabularyMaps {
 public:
  // Reads the maps in `folder` between vocabularies of these sizes. kBadFile.
  Status read(const std::string& folder, int64_t target_size, int64_t draft_size);

  int32_t to_target(int32_t id) override { return at(to_target_, id); }
  int32_t to_draft(int32_t token) override { return at(to_draft_, token); }
  size_t nbytes() const override { return (to_target_.size() + to_draft_.size()) * sizeof(int32_t); }

 private:
  static int32_t at(const std::vector<int32_t>& map, int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < map.size() ? map[static_cast<size_t>(id)] : -1;
  }

  std::vector<int32_t> to_target_, to_draft_;
};

}  // namespace edgedec::engine
