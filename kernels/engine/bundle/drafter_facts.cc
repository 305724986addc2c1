#include "engine/bundle/drafter_facts.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/span.h"

namespace edgedec::engine {
namespace {

constexpr double kNumberEnd = 2147483648.0;
constexpr int64_t kTapsOfHead = 3;
constexpr int kMostTapLayers = 1 << 12;
constexpr size_t kMostTapDigits = 6;

// A number of a manifest. kFree: it may be 0, or long; kMaybe: it may be missing as well.
enum class Range { kSize, kFree, kMaybe };
struct Stated {
  const char* name;
  int64_t* value;
  Range range = Range::kSize;
};

Status impossible(const char* what, const char* name) {
  return {Code::kBadFile, std::string(what) + " states an impossible " + name};
}

Status sizes_of(const DrafterManifest& manifest, const char* what, const std::vector<Stated>& fields) {
  for (const Stated& field : fields) {
    const double* stated = manifest.number(field.name);
    if (!stated && field.range == Range::kMaybe) continue;
    if (!stated) return {Code::kBadFile, std::string(what) + " does not state its " + field.name};
    const bool free = field.range != Range::kSize;
    if (*stated != std::floor(*stated) || *stated < (free ? 0.0 : 1.0) || *stated >= (free ? kNumberEnd * 1024 : kNumberEnd))
      return impossible(what, field.name);
    *field.value = static_cast<int64_t>(*stated);
  }
  return {};
}

std::vector<Stated> fields_of(LayerFacts* facts) {
  return {{"hidden", &facts->hidden},
          {"heads", &facts->heads},
          {"kv_heads", &facts->kv_heads},
          {"head_dim", &facts->head_dim},
          {"ffn", &facts->ffn},
          {"ids", &facts->ids},
          {"head_k", &facts->head_k},
          {"table_offset", &facts->table.offset, Range::kFree},
          {"table_tiles", &facts->table.tiles},
          {"table_tile_bytes", &facts->table.tile_bytes}};
}

// Layers by comma; false for anything else.
bool layers_of(std::string_view text, std::vector<int>* layers) {
  for (size_t at = 0; at <= text.size() && !text.empty();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end == at || end - at > kMostTapDigits) return false;
    int layer = 0;
    for (; at < end; ++at) {
      if (text[at] < '0' || text[at] > '9') return false;
      layer = 10 * layer + (text[at] - '0');
    }
    if (layer >= kMostTapLayers) return false;
    layers->push_back(layer);
    at = end + 1;
  }
  return layers->empty() || static_cast<int64_t>(layers->size()) == kTapsOfHead;
}

}  // namespace

ModelSpec LayerFacts::spec(int64_t context) const {
  ModelSpec spec;
  spec.name = spec.architecture = "layer";
  spec.vocab_size = ids;
  spec.n_layers = 1;
  spec.n_heads = heads;
  spec.n_kv_heads = kv_heads;
  spec.head_dim = head_dim;
  spec.hidden_size = hidden;
  spec.context_length = context;
  spec.head_k = head_k;
  spec.ffn_size = ffn;
  spec.experts = experts;
  return spec;
}

int64_t HeadFacts::width() const { return kTapsOfHead * (tap_size ? tap_size : hidden); }

Status HeadFacts::of(const DrafterManifest& manifest, HeadFacts* facts) {
  constexpr const char* kWhat = "the drafting head";
  std::vector<Stated> fields = fields_of(facts);
  fields.push_back({"fc_bytes", &facts->fc_bytes});
  fields.push_back({"head_bytes", &facts->head_bytes});
  fields.push_back({"tap_size", &facts->tap_size, Range::kMaybe});
  fields.push_back({"own_table", &facts->own_table, Range::kMaybe});
  EDGEDEC_TRY(sizes_of(manifest, kWhat, fields));
  if (!layers_of(manifest.text("taps"), &facts->taps)) return impossible(kWhat, "taps");
  return {};
}

Status MtpFacts::of(const DrafterManifest& manifest, MtpFacts* facts) {
  constexpr const char* kWhat = "the MTP drafter";
  Experts& experts = facts->experts;
  std::vector<Stated> fields = fields_of(facts);
  fields.push_back({"head_offset", &facts->head.offset, Range::kFree});
  fields.push_back({"head_tiles", &facts->head.tiles});
  fields.push_back({"head_tile_bytes", &facts->head.tile_bytes});
  fields.push_back({"experts", &experts.count, Range::kMaybe});
  fields.push_back({"chosen", &experts.chosen, Range::kMaybe});
  fields.push_back({"expert_width", &experts.width, Range::kMaybe});
  fields.push_back({"expert_bytes", &experts.slot_bytes, Range::kMaybe});
  EDGEDEC_TRY(sizes_of(manifest, kWhat, fields));
  const bool some = experts.count > 0, all = experts.chosen > 0 && experts.width > 0 && experts.slot_bytes > 0;
  const bool none = !experts.chosen && !experts.width && !experts.slot_bytes;
  if (experts.chosen > experts.count || (some ? !all : !none))
    return {Code::kBadFile, std::string(kWhat) + " states experts whose numbers do not fit each other"};
  experts.layers = some;
  experts.nbytes = experts.count * experts.slot_bytes;
  return {};
}

Status AssistantFacts::of(const DrafterManifest& manifest, AssistantFacts* facts) {
  return sizes_of(manifest, "the assistant",
                  {{"target_hidden", &facts->target_hidden},
                   {"hidden", &facts->hidden},
                   {"heads", &facts->heads},
                   {"head_dim", &facts->head_dim},
                   {"ffn", &facts->ffn},
                   {"ids", &facts->ids},
                   {"scored", &facts->scored},
                   {"head_k", &facts->head_k},
                   {"head_bytes", &facts->head_bytes},
                   {"table_offset", &facts->table.offset, Range::kFree},
                   {"table_tiles", &facts->table.tiles},
                   {"table_tile_bytes", &facts->table.tile_bytes}});
}

}  // namespace edgedec::engine
