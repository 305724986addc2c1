// A model's own way to draw replies: edgedec/bundle/preset.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/status.h"
#include "core/params.h"

namespace edgedec::engine {

struct Preset {
  DrawParams sampling;  // without seed and logit bias
  std::optional<std::string> system;
  std::vector<std::string> stops;  // strings that end a reply, as the user's own do
};

// Makes a preset of JSON fields; those that are absent are off. The message of a failure begins as "has no ...".
Status read_preset(JsonValue data, Preset* preset);

// Takes the sampling values among JSON fields; those that are absent stay as they are. A failure's message begins so too.
Status read_sampling(JsonValue data, DrawParams* params);

// Writes the values as JSON fields into an object, in the order of the Python class.
void write_sampling(const DrawParams& params, JsonWriter* out);

}  // namespace edgedec::engine
