#include "engine/bundle/preset.h"

#include "core/base/format.h"
#include "core/base/utf8.h"
#include "engine/bundle/fields.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostStops = 16;
constexpr int64_t kMostStopChars = 200, kMostSystemChars = 20000;
constexpr double kMostSetting = 100.0;  // models are published with 0 to 2

// A value, and what it can be in a preset.
struct Value {
  const char* name;
  double DrawParams::*place;
  double least, most;
  bool above_least, below_most;  // whether the bounds themselves are outside
};

constexpr Value kValues[] = {
    {"temperature", &DrawParams::temperature, 0.0, kMostSetting, false, false},
    {"top_p", &DrawParams::top_p, 0.0, 1.0, true, false},
    {"min_p", &DrawParams::min_p, 0.0, 1.0, false, false},
    {"top_n_sigma", &DrawParams::top_n_sigma, 0.0, kMostSetting, false, false},
    {"typical", &DrawParams::typical, 0.0, 1.0, true, false},
    {"eta", &DrawParams::eta, 0.0, 1.0, false, true},
    {"top_h", &DrawParams::top_h, 0.0, 1.0, true, false},
    {"mirostat", &DrawParams::mirostat, 0.0, kMostSetting, false, false},
    {"mirostat_eta", &DrawParams::mirostat_eta, 0.0, 1.0, true, false},
    {"edt", &DrawParams::edt, 0.0, kMostSetting, false, false},
    {"repetition_penalty", &DrawParams::repetition_penalty, 0.0, kMostSetting, true, false},
    {"frequency_penalty", &DrawParams::frequency_penalty, -2.0, 2.0, false, false},
    {"presence_penalty", &DrawParams::presence_penalty, -2.0, 2.0, false, false},
};
constexpr std::string_view kTopK = "top_k";

Status wrong(const std::string& why) { return {Code::kBadFile, why}; }

const Value* value_of(std::string_view name) {
  for (const Value& value : kValues)
    if (name == value.name) return &value;
  return nullptr;
}

Status read_stops(JsonValue data, std::vector<std::string>* stops) {
  for (size_t i = 0; data.is_list() && i < data.size(); ++i) {
    const std::optional<std::string_view> stop = data.at(i).text();
    if (!stop) return wrong("has no list of texts as stops");
    if (stop->empty() || characters(*stop) > kMostStopChars || !is_utf8(*stop) || i >= kMostStops)
      return wrong("is wrong: stop strings must be at most 16 texts of 1 to 200 characters");
    stops->emplace_back(*stop);
  }
  return data.missing() || data.is_list() ? Status() : wrong("has no list of texts as stops");
}

}  // namespace

Status read_sampling(JsonValue data, DrawParams* params) {
  for (size_t i = 0; i < data.size(); ++i) {
    const JsonValue one = data.at(i);
    const std::string name(one.key());
    if (name == "system" || name == "stops") continue;
    const Value* value = value_of(name);
    if (!value && name != kTopK) return wrong("has the unknown field " + quoted(name));
    if (!one.number()) return wrong("has no number as " + name);
    if (!value) {
      const int64_t top_k = one.whole().value_or(-1);
      if (top_k < 0 || top_k > 0x7FFFFFFF) return wrong("is wrong: top-k must be 0 (off) or a positive integer");
      params->top_k = top_k;
      continue;
    }
    const double number = *one.number();
    const bool low = value->above_least ? number <= value->least : number < value->least;
    const bool high = value->below_most ? number >= value->most : number > value->most;
    if (low || high || number != number) return wrong("is wrong: " + name + " cannot be " + real_text(number));
    params->*value->place = number;
  }
  return {};
}

Status read_preset(JsonValue data, Preset* preset) {
  *preset = {};
  EDGEDEC_TRY(read_sampling(data, &preset->sampling));
  if (const JsonValue system = data["system"]; !system.missing() && !system.is_null()) {
    if (!system.text()) return wrong("has no text as system");
    if (system.text()->empty() || characters(*system.text()) > kMostSystemChars || !is_utf8(*system.text()))
      return wrong("is wrong: the system message must be a text of 1 to 20000 characters");
    preset->system = std::string(*system.text());
  }
  return read_stops(data["stops"], &preset->stops);
}

void write_sampling(const DrawParams& params, JsonWriter* out) {
  constexpr std::string_view kOrder[] = {"temperature", "top_k", "top_p", "min_p", "top_n_sigma", "typical", "eta", "top_h",
                                         "mirostat", "mirostat_eta", "edt", "repetition_penalty", "frequency_penalty",
                                         "presence_penalty"};
  for (std::string_view name : kOrder) {
    out->key(name);
    if (name == kTopK) out->whole(params.top_k);
    else out->real(params.*value_of(name)->place);
  }
}

}  // namespace edgedec::engine
