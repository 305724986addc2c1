// The JSON that JavaScript hands in: the options of an engine, and the request of a reply.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/status.h"
#include "engine/bundle/preset.h"
#include "engine/capi/turns.h"
#include "core/control/linear_fit.h"

namespace edgedec::engine {

struct WebOptions {
  std::string folder;
  int64_t context = 0;  // 0: the model's, at most 4096
  int64_t max_pass = 128;
  int64_t draft_tokens = 15;
  int64_t memory = 0;  // bytes; 0: no limit but that of addresses
  std::string draft = "auto";
  Points costs;  // empty: not known
};

struct WebRequest {
  enum Kind { kMessages, kText, kTokens, kMore } kind = kMessages;
  ChatMessages messages;
  std::string text;
  std::vector<int32_t> tokens;
  ReplyRequest reply;
};

Status read_options(std::string_view text, WebOptions* options);
// Numbers of layers that a device can run apart, of a model of `layers`.
Status read_exits(std::string_view text, int64_t layers, std::vector<int>* exits);
Status read_request(std::string_view text, const Preset& preset, WebRequest* request);
// Costs as a list of pairs, and back.
void write_costs(const Points& costs, JsonWriter* out);

}  // namespace edgedec::engine
