#include "engine/drafters/registry.h"

#include <algorithm>

#include "engine/base/files.h"
#include "core/base/format.h"
#include "engine/decode/table_drafters.h"
#include "core/draft/exit_drafter.h"
#include "engine/drafters/device_folder.h"
#include "engine/drafters/trim.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostNames = 16, kMostShown = 40;

bool is_bundle(const std::string& folder) { return file_size(path_in(folder, "manifest.json")) >= 0; }

Status no_drafter(std::string_view name) {
  return {Code::kUsage, "there is no drafter " + quoted(name.substr(0, kMostShown)),
          "there are auto, off, lookup, recycling, exit, head, mtp, assistant, and models by name or path"};
}

class Resolver {
 public:
  Resolver(const std::string& folder, const Manifest& manifest, std::vector<DrafterSpec>* found)
      : folder_(folder), manifest_(manifest), found_(*found) {}

  Status add(std::string_view name) {
    if (useful_bytes(name)) {
      add({DrafterKind::kTable, std::string(name)});
    } else if (name == "exit" || named_layers(name).exit) {
      add({DrafterKind::kExit, std::string(name)});
    } else if (const CarriedKind* kind = named(name)) {
      if (carried(folder_, kind->name).empty())
        return {Code::kNotFound, manifest_.name + " has no " + kind->title, kind->remedy};
      add({kind->kind, std::string(name)});
    } else if (name.empty() || name == "off") {
      return no_drafter(name);
    } else {
      return add_model(name);
    }
    return {};
  }

  // Those that suit the model, beside the ones that every model has.
  Status add_unnamed() {
    const bool exits = std::any_of(found_.begin(), found_.end(), [](const DrafterSpec& one) { return one.name.substr(0, 4) == "exit"; });
    const bool models = std::any_of(found_.begin(), found_.end(), [](const DrafterSpec& one) { return one.kind == DrafterKind::kModel; });
    if (!exits && manifest_.file(kDraftingFile) && saved_share(folder_) >= least_saved())
      add({DrafterKind::kExit, exit_name(static_cast<int>(manifest_.spec.n_layers)), false, {}, {}, {}});
    for (const CarriedKind& one : kCarriedKinds)
      if (manifest_.file(kDraftingFile) && !carried(folder_, one.name).empty()) add({one.kind, one.name, false});
    if (models) return {};
    CarriedModel model;
    EDGEDEC_TRY(carried_model(folder_, &model));
    if (!model.bundle.empty()) add({DrafterKind::kModel, model.name, false, model.bundle, model.maps, model.map_files});
    return {};
  }

 private:
  static const CarriedKind* named(std::string_view name) {
    const auto found = std::find_if(std::begin(kCarriedKinds), std::end(kCarriedKinds),
                                    [name](const CarriedKind& one) { return one.name == name; });
    return found == std::end(kCarriedKinds) ? nullptr : found;
  }

  void add(DrafterSpec spec) {
    const auto same = [&](const DrafterSpec& one) { return one.name == spec.name; };
    if (std::none_of(found_.begin(), found_.end(), same)) found_.push_back(std::move(spec));
  }

  Status add_model(std::string_view name) {
    CarriedModel model;
    EDGEDEC_TRY(carried_model(folder_, &model));
    const std::string path(name);
    if (!model.bundle.empty() && model.name == name) add({DrafterKind::kModel, path, true, model.bundle, model.maps, model.map_files});
    else if (is_bundle(path)) add({DrafterKind::kModel, path, true, path, {}, {}});
    else return no_drafter(name);
    return {};
  }

  const std::string& folder_;
  const Manifest& manifest_;
  std::vector<DrafterSpec>& found_;
};

}  // namespace

const CarriedKind* carried_kind(DrafterKind kind) {
  for (const CarriedKind& one : kCarriedKinds)
    if (one.kind == kind) return &one;
  return nullptr;
}

Status resolve_drafters(std::string_view text, const std::string& folder, const Manifest& manifest,
                        std::vector<DrafterSpec>* drafters) {
  drafters->clear();
  if (text == "off") return {};
  Resolver resolver(folder, manifest, drafters);
  bool automatic = false;
  size_t names = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view name = text.substr(at, end - at);
    at = end + 1;
    if (++names > kMostNames) return {Code::kUsage, "there are too many drafters", "name at most 16"};
    if (name != "auto") {
      EDGEDEC_TRY(resolver.add(name));
      continue;
    }
    automatic = true;
    EDGEDEC_TRY(resolver.add("lookup"));
    EDGEDEC_TRY(resolver.add("recycling"));
  }
  if (automatic) EDGEDEC_TRY(resolver.add_unnamed());
  std::stable_sort(drafters->begin(), drafters->end(),
                   [](const DrafterSpec& a, const DrafterSpec& b) { return a.kind < b.kind; });
  const auto is_model = [](const DrafterSpec& one) { return one.kind == DrafterKind::kModel; };
  if (std::count_if(drafters->begin(), drafters->end(), is_model) > 1)
    return {Code::kUsage, "only one model can draft", "name one draft model"};
  return {};
}

}  // namespace edgedec::engine
