// Figures of a run as JSON, with the keys of `edgedec generate --json`: edgedec/session/model_stats.py.
#pragma once

#include <string>

#include "engine/capi/run.h"
#include "engine/edgedec.h"

namespace edgedec::engine {

// The latest reply, as it is told in figures.
struct ReplyFigures {
  bool any = false;
  edgedec_result result = {};
  DrawParams params;
};

std::string plan_json(Run& run);
std::string stats_json(Run& run, const ReplyFigures& reply);

}  // namespace edgedec::engine
