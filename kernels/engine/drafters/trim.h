// The trimmed head of a model: the ids that it keeps, in a drafter's folder of the kind "trim". edgedec/drafters/trim.py.
#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"
#include "engine/bundle/manifest.h"
#include "core/draft/first_ids.h"
#include "core/draft/trimmed_head.h"

namespace edgedec::engine {

// The folder of the drafter of a kind that a bundle carries; empty where it has none.
std::string carried(const std::string& bundle, const char* kind);

// The share of a pass that the trimmed head in a bundle saves; 0 without one, and for a broken one, of which its use tells.
double saved_share(const std::string& bundle);

// Reads the trimmed head that a bundle carries for its model. `step`: the cost of a draft step with the full head, in
// passes of the target. None where there is none. kBadFile.
Status read_trim(const std::string& bundle, const Manifest& manifest, double step, std::shared_ptr<TrimmedHead>* trimmed);

// The same for a layer that reads the model's head. Where none was made, the first ids of a large vocabulary.
Status read_trimmed_layer(const std::string& bundle, const Manifest& manifest, const LayerCost& cost,
                          std::shared_ptr<TrimmedHead>* trimmed);

}  // namespace edgedec::engine
