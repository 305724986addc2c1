#include "engine/model/exits.h"

#include <algorithm>

#include "core/base/format.h"
#include "engine/bundle/manifest.h"
#include "engine/model/ports.h"
#include "engine/model/session.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostExits = 64, kMostDigits = 5;
constexpr const char* kKeep = "keep";

std::string named(const char* what, int number) { return what + decimal(int64_t{number}); }

// The numbers in `text`, from 0 to `most`; none when it holds anything else.
std::vector<int> numbers(std::string_view text, int64_t most) {
  std::vector<int> found;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end == at || end - at > kMostDigits || found.size() == kMostExits) return {};
    int number = 0;
    for (; at < end; ++at) {
      if (text[at] < '0' || text[at] > '9') return {};
      number = 10 * number + (text[at] - '0');
    }
    if (number > most) return {};
    found.push_back(number);
    at = end + 1;
  }
  return found;
}

Status stated(const Runtime& runtime, const OrtModelMetadata* data, const char* key, std::string* text) {
  const ort::Api api = runtime.api();
  OrtAllocator* allocator = nullptr;
  char* found = nullptr;
  EDGEDEC_TRY(runtime.check(api.GetAllocatorWithDefaultOptions()(&allocator), true));
  EDGEDEC_TRY(runtime.check(api.ModelMetadataLookupCustomMetadataMap()(data, allocator, key, &found), true));
  if (!found) return {};
  *text = found;
  return runtime.check(api.AllocatorFree()(allocator, found));
}

// Whether exits are those of a model of these layers: none, or ascending to all of them. A peek would apply tokens to the
// states of lower layers, and not to those of the others.
bool are_exits(const std::vector<int>& exits, const ModelSpec& spec) {
  if (exits.empty()) return true;
  if (exits.back() != spec.n_layers || exits.front() < 1 || !spec.states.empty()) return false;
  return std::adjacent_find(exits.begin(), exits.end(), [](int a, int b) { return a >= b; }) == exits.end();
}

}  // namespace

bool Exits::has(int exit) const { return std::binary_search(exits.begin(), exits.end(), exit); }

std::string Exits::out(int layer) { return named("blk.", layer) + ".out"; }
std::string Exits::rows(int exit) { return named("rows.", exit); }
std::string Exits::passing(int exit) { return named("passing.", exit); }
std::string Exits::warm(int exit) { return named("warm.", exit); }

Status read_exits(const Runtime& runtime, const OrtSession* session, const ModelSpec& spec, Span<const int> taps, Exits* exits) {
  OrtModelMetadata* data = nullptr;
  EDGEDEC_TRY(runtime.check(runtime.api().SessionGetModelMetadata()(session, &data), true));
  const MetadataOwner owner(data, {runtime.api()});
  std::string texts[2];
  EDGEDEC_TRY(stated(runtime, data, "exits", &texts[0]));
  EDGEDEC_TRY(stated(runtime, data, "taps", &texts[1]));
  exits->exits = numbers(texts[0], spec.n_layers);
  exits->taps = numbers(texts[1], spec.n_layers - 1);
  exits->hidden_size = spec.hidden_size;
  if (!are_exits(exits->exits, spec) || exits->taps.empty()) return other_model(kDraftingFile);
  Ports in, out;
  EDGEDEC_TRY(in.read_inputs(runtime, session));
  EDGEDEC_TRY(out.read_outputs(runtime, session));
  std::vector<std::string> more = {kKeep};
  bool right = true;
  for (int exit : exits->exits) {
    more.push_back(Exits::warm(exit));
    right = right && has_columns(in.find(more.back().c_str()), spec.hidden_size);
    exits->taps.push_back(exit - 1);
    if (exit == spec.n_layers) break;
    more.push_back(Exits::rows(exit));
    more.push_back(Exits::passing(exit));
  }
  for (int layer : exits->taps) right = right && has_columns(out.find(Exits::out(layer).c_str()), spec.hidden_size);
  for (int tap : taps)
    if (tap < spec.n_layers && out.find(Exits::out(tap).c_str())) exits->taps.push_back(tap);
  std::sort(exits->taps.begin(), exits->taps.end());
  exits->taps.erase(std::unique(exits->taps.begin(), exits->taps.end()), exits->taps.end());
  const auto usual = usual_taps(spec.n_layers);
  exits->held_ = static_cast<int64_t>(exits->exits.size());
  for (int tap : exits->taps) exits->held_ += !exits->has(tap + 1) && std::find(usual.begin(), usual.end(), tap) == usual.end();
  if (!right) return other_model(kDraftingFile);
  return check_shapes(runtime, session, spec, kDraftingFile, more);
}

}  // namespace edgedec::engine
