// Handles of drafters that run models.
#pragma once

#include <memory>

#include "core/api/host_forward.h"
#include "core/decode/drafter.h"
#include "core/draft/trimmed_head.h"

struct edgedec_core_trimmed {
  std::shared_ptr<edgedec::engine::TrimmedHead> head;
};

struct edgedec_core_drafter {
  std::unique_ptr<edgedec::engine::api::HostForward> forward;  // of one that runs a forward of the host
  std::unique_ptr<edgedec::engine::Drafter> drafter;
  edgedec::engine::DraftTree tree;
};
