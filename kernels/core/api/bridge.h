// A bridge behind its handle.
#pragma once

#include <memory>

#include "core/api/core_api.h"
#include "core/draft/bridge.h"

struct edgedec_core_bridge {
  std::shared_ptr<edgedec::engine::Bridge> bridge;
  edgedec::engine::TreeBuilder tree;
};
