// Figures of a run as JSON, with the keys of `edgedec generate --json`: edgedec/session/model_stats.py.
#pragma once

#include <string>

#include "engine/capi/figures.h"
#include "engine/capi/run.h"

namespace edgedec::engine {

std::string plan_json(Run& run);
std::string stats_json(Run& run, const ReplyFigures& reply);

}  // namespace edgedec::engine
