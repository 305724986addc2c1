// Drafters that belong to a model, by programs of the CPU: layers with a cache of their own, and assistants.
#pragma once

#include <memory>
#include <string>

#include "core/draft/assistant_steps.h"
#include "core/draft/layer_forward.h"
#include "engine/model/layer_graph.h"
#include "engine/web/awaited_forward.h"
#include "engine/web/cpu_model.h"

namespace edgedec::engine {

// Opens the layer in `files` with an empty cache of `capacity` positions. `bytes`: of its memory. kBadFile.
Status open_layer(const CpuFiles& files, const LayerGraph& graph, int64_t capacity, std::unique_ptr<LayerForward>* made,
                  int64_t* bytes);

// Opens the assistant in `files`, which reads the caches of `target` as `forward` fills them. Both outlive it. kBadFile.
Status open_assistant(const CpuFiles& files, const AssistantFacts& facts, const CpuShape& target, CpuCaches* caches,
                      AwaitedForward& forward, std::unique_ptr<AssistantSteps>* made, int64_t* bytes);

}  // namespace edgedec::engine
