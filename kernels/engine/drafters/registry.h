// The kinds of drafters, and a user's choice among them, parsed once: edgedec/drafters/registry.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "engine/bundle/manifest.h"

namespace edgedec::engine {

// In the order in which control hears of them.
enum class DrafterKind { kTable, kExit, kHead, kMtp, kAssistant, kModel };

// The kinds that belong to one target, in folders of its bundle.
struct CarriedKind {
  DrafterKind kind;
  const char* name;   // its own, and that of the folder
  const char* title;  // in words
  const char* remedy; // the hint for a target without one
};
constexpr CarriedKind kCarriedKinds[] = {
    {DrafterKind::kHead, "head", "trained head", "train one, or use other drafters"},
    {DrafterKind::kMtp, "mtp", "MTP layer", "use other drafters, or export a checkpoint that has one"},
    {DrafterKind::kAssistant, "assistant", "assistant", "import one, or use other drafters"},
};
// The entry of a kind; null for others.
const CarriedKind* carried_kind(DrafterKind kind);

// A drafter that was chosen: its kind, and its name as users write it. `named`: whether a user did.
struct DrafterSpec {
  DrafterKind kind = DrafterKind::kTable;
  std::string name;
  bool named = true;
  std::string bundle = {};  // of a small model
  std::string maps = {};    // the folder with maps between its tokens and the target's; empty for the same vocabulary
  std::vector<FileEntry> map_files = {};  // of these maps
};

// The drafters that `text` stands for with the model in `folder`: names by comma, "auto" for those that suit it, "off".
// kUsage: there is no such drafter. kUnsupported: this engine does not have it.
Status resolve_drafters(std::string_view text, const std::string& folder, const Manifest& manifest,
                        std::vector<DrafterSpec>* drafters);

}  // namespace edgedec::engine
