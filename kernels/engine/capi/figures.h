// Figures of replies and drafts as JSON, with the keys of `edgedec generate --json`: edgedec/session/model_stats.py.
#pragma once

#include "core/base/json.h"
#include "core/params.h"
#include "core/decode/speculation.h"
#include "engine/edgedec.h"

namespace edgedec::engine {

// The latest reply, as it is told in figures.
struct ReplyFigures {
  bool any = false;
  edgedec_result result = {};
  DrawParams params;
};

// Writes a number at six places behind the point, as Python's round does it for numbers of this size.
JsonWriter& rounded(double value, JsonWriter* out);

// Writes a share of `whole`; null of nothing.
void rate(int64_t part, int64_t whole, JsonWriter* out);

// Writes the members of an object that tell what was drafted and accepted.
void write_drafts(const Speculation& speculation, JsonWriter* out);
// Writes the members of an object that tell of a reply.
void write_reply(const ReplyFigures& reply, JsonWriter* out);

}  // namespace edgedec::engine
