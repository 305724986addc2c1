// The small model that a folder for a device carries: edgedec/bundle/device_folder.py.
#pragma once

#include <string>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "engine/bundle/fields.h"

namespace edgedec::engine {

// A bundle in the folder, and the folder with the maps between its tokens and the target's; empty where there is none.
struct CarriedModel {
  std::string name, bundle, maps;
  std::vector<FileEntry> map_files;  // by their names in `maps`
};

// Reads device.json, where the folder has one. kBadFile, kUnsupported for another version.
Status carried_model(const std::string& folder, CarriedModel* model);
// Compares the maps with the sizes and hashes that device.json states. kBadFile.
Status check_maps(const std::string& maps, Span<const FileEntry> files);

}  // namespace edgedec::engine
