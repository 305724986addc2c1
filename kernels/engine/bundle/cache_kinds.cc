#include "engine/bundle/cache_kinds.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/format.h"

namespace edgedec::engine {
namespace {

constexpr const char* kKeysNames[] = {"kv_cache", "kv_window"};
constexpr const char* kStatesNames[] = {"delta", "conv"};
constexpr int64_t kMostOfKind = 1 << 24;

// One kind, whose errors name the list.
class KindReader {
 public:
  KindReader(const ManifestFields& reader, JsonValue row) : reader_(reader), row_(row) {}

  Status read(ModelSpec* spec, const char** name) {
    if (!row_.is_object()) return wrong("lists something that is no kind of cache");
    const auto kind = row_["kind"].text();
    if (kind == std::string_view("keys") && known(kKeysNames, name)) return read_keys(spec, *name == kKeysNames[1]);
    if (kind == std::string_view("states") && known(kStatesNames, name)) return read_states(spec, *name);
    return wrong("lists a kind of cache that this EdgeDec does not know");
  }

 private:
  Status wrong(std::string_view why) const { return reader_.wrong("caches", why); }

  bool known(const char* const (&names)[2], const char** name) const {
    for (const char* one : names) {
      *name = one;
      if (row_["name"].text() == std::string_view(one)) return true;
    }
    return false;
  }

  Status size(const char* key, int64_t* value, int64_t least = 1) const {
    const std::optional<int64_t> found = row_[key].whole();
    if (!found || *found < least || *found > kMostOfKind) return wrong(std::string("has no proper ") + key);
    *value = *found;
    return {};
  }

  Status read_keys(ModelSpec* spec, bool rings) const {
    Keys keys;
    EDGEDEC_TRY(size("layers", &keys.layers));
    EDGEDEC_TRY(size("kv_heads", &keys.kv_heads));
    EDGEDEC_TRY(size("head_dim", &keys.head_dim));
    EDGEDEC_TRY(size("window", &keys.window, 0));
    if ((keys.window > 0) != rings) return wrong("has a window where there is none, or none where there is one");
    spec->keys.push_back(keys);
    return {};
  }

  Status read_states(ModelSpec* spec, const char* name) const {
    States states;
    states.name = name;
    EDGEDEC_TRY(size("layers", &states.layers));
    EDGEDEC_TRY(size("trail", &states.row));
    EDGEDEC_TRY(size("tail", &states.tail));
    EDGEDEC_TRY(size("state", &states.state, 0));
    if (states.tail >= kTrailSlots)
      return wrong("reads " + decimal(states.tail) + " rows before a pass: at most " + decimal(kTrailSlots - 1));
    spec->states.push_back(states);
    return {};
  }

  const ManifestFields& reader_;
  JsonValue row_;
};

}  // namespace

Status read_caches(const ManifestFields& reader, ModelSpec* spec) {
  JsonValue rows;
  EDGEDEC_TRY(reader.list("caches", &rows));
  std::vector<const char*> names;
  for (size_t at = 0; at < rows.size(); ++at) {
    names.push_back(nullptr);
    EDGEDEC_TRY(KindReader(reader, rows.at(at)).read(spec, &names.back()));
  }
  std::sort(names.begin(), names.end());
  const bool twice = std::adjacent_find(names.begin(), names.end()) != names.end();
  return names.empty() || twice ? reader.wrong("caches", "lists no kind of cache, or one twice") : Status();
}

}  // namespace edgedec::engine
