// The small model that a folder for a device carries: edgedec/core/device_folder.py.
#pragma once

#include <string>

#include "engine/base/status.h"

namespace edgedec::engine {

// A bundle in the folder, and the folder with the maps between its tokens and the target's; empty where there is none.
struct CarriedModel {
  std::string name, bundle, maps;
};

// Reads device.json, where the folder has one. kBadFile, kUnsupported for another version.
Status carried_model(const std::string& folder, CarriedModel* model);

}  // namespace edgedec::engine
