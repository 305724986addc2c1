// Drafters that belong to one target, in folders of its bundle: its trained head, the layer for further tokens that its makers
// trained (MTP), and its assistant. edgedec/drafters/head.py, mtp.py and assistant.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/decode/drafter.h"
#include "core/decode/speculation.h"
#include "core/decode/forward.h"
#include "core/memory/footprint.h"
#include "engine/bundle/manifest.h"
#include "engine/drafters/registry.h"
#include "engine/model/onnx_model.h"

namespace edgedec::engine {

// The target of such a drafter: its bundle, and once it is opened the model.
struct CarryingTarget {
  const std::string& bundle;
  const Manifest& manifest;
  const OnnxModel* model = nullptr;
};

// Layers of the target whose outputs the drafter of this kind needs; unchecked, and none where it cannot be read.
std::vector<int> carried_taps(const CarriedKind& kind, const CarryingTarget& target);

// One that was opened.
class CarriedDrafter {
 public:
  virtual ~CarriedDrafter() = default;

  // Opens that of the bundle. kBadFile, kBackend, kUnsupported: it cannot be used. `notice` hears of a trimmed head that
  // cannot.
  static Status open(const CarriedKind& kind, const Runtime& runtime, const CarryingTarget& target, Notice* notice,
                     std::unique_ptr<CarriedDrafter>* drafter);

  // Its memory in a plan, which lives as long as this.
  virtual DrafterMemory memory() const = 0;
  // Makes its drafter for `target`, which knows no text. The ledger has its part of the plan.
  virtual Status make(const Forward& target, Ledger* ledger, std::unique_ptr<Drafter>* made) = 0;
};

}  // namespace edgedec::engine
