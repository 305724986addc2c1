#include "engine/drafters/own_layers.h"

#include <algorithm>
#include <utility>

#include "core/base/format.h"
#include "core/draft/exit_drafter.h"

namespace edgedec::engine {
namespace {

// Whether a model has an exit, or all layers around a span. The first and the last layers always run.
bool has_layers(Span<const int> exits, LayerSubset layers) {
  const auto has = [&](int exit) { return std::binary_search(exits.begin(), exits.end(), exit); };
  if (!layers.resume) return has(layers.exit);
  const auto inner = [&](int exit) { return has(exit) && exit != exits[exits.size() - 1]; };
  return inner(layers.exit) && inner(layers.resume) && layers.resume > layers.exit;
}

// The names of drafters that leave out layers, as a hint.
std::string known_skips(Span<const int> exits) {
  constexpr size_t kShown = 3;
  std::string known;
  size_t shown = 0;
  for (size_t from = 0; from + 2 < exits.size(); ++from)
    for (size_t to = from + 1; to + 1 < exits.size() && shown < kShown; ++to, ++shown)
      known += (shown ? ", " : "there are names like ") + layers_name({exits[from], exits[to]});
  return shown ? known : "it has too few layers to leave some out";
}

// Bytes that a pass over one token reads of a layer and of the head.
ReadBytes parts_read(const ModelSpec& spec, int64_t weights, int64_t kv_cache) {
  const auto hidden = static_cast<double>(spec.hidden_size);
  const auto heads = static_cast<double>(spec.head_dim * (2 * spec.n_heads + 2 * spec.n_kv_heads));
  const double gates = 3.0 * taken_rows(spec) / static_cast<double>(spec.n_layers);
  return ReadBytes::of({spec.n_layers, hidden * (heads + gates), hidden * static_cast<double>(spec.vocab_size),
                        read_bytes(spec, weights - spec.table_bytes), static_cast<double>(kv_cache)});
}

}  // namespace

Status no_exits(const std::string& model) {
  return {Code::kUnsupported, model + " cannot draft with its own layers: its bundle has no early exits",
          "pull or export the model again, or use other drafters"};
}

Status check_exits(const std::string& model, Span<const int> exits, const std::vector<DrafterSpec>& drafters) {
  for (const DrafterSpec& one : drafters) {
    const LayerSubset layers = named_layers(one.name);
    if (one.kind != DrafterKind::kExit) continue;
    if (exits.empty()) return no_exits(model);
    if (one.name == "exit" || has_layers(exits, layers)) continue;
    std::string known = "there are exit";
    for (int exit : exits) known += ", " + exit_name(exit);
    return {Code::kUsage, model + " has no drafter " + one.name, layers.resume ? known_skips(exits) : known};
  }
  return {};
}

void add_exits(const DrafterSpec& spec, const OwnLayers& of, Forward& forward, const std::shared_ptr<TrimmedHead>& trimmed,
               Drafters* drafters) {
  const ModelSpec& model = of.manifest.spec;
  const ReadBytes bytes = parts_read(model, of.weights, of.kv_cache);
  const Span<const int> exits = forward.exits();
  std::vector<LayerSubset> chosen = {named_layers(spec.name)};
  if (spec.name == "exit") {
    chosen.clear();
    const auto kept = trimmed ? static_cast<double>(trimmed->keep().size()) : static_cast<double>(model.vocab_size);
    for (int exit : promising_exits(exits, bytes, kept / static_cast<double>(model.vocab_size))) chosen.push_back({exit, 0});
  }
  const int last = exits[exits.size() - 1];
  for (const LayerSubset& layers : chosen) {
    const int count = layers.exit + (layers.resume ? last - layers.resume : 0);
    ExitSetting setting{layers, last, of.manifest.tokenizer.eos_ids, count * bytes.layer, bytes.head,
                        model.table_bytes, model.vocab_size, {}};
    drafters->push_back(std::make_unique<ExitDrafter>(forward, std::move(setting), trimmed));
  }
}

}  // namespace edgedec::engine
