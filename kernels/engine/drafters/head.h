// The trained head of a target as a drafter: edgedec/drafters/head.py.
//
// Memory: its weights; a cache of at most 1024 positions; the scratch of its passes and their buffers; hidden states of 128
// tokens.
#pragma once

#include <memory>
#include <string>

#include "engine/bundle/manifest.h"
#include "core/decode/drafter.h"
#include "core/memory/footprint.h"
#include "engine/model/head_forward.h"
#include "engine/model/onnx_model.h"

namespace edgedec::engine {

// Opens the head that the bundle `folder` of `target` carries. kBadFile, kBackend.
Status open_carried_head(const Runtime& runtime, const std::string& folder, const Manifest& manifest, const OnnxModel& target,
                         std::unique_ptr<HeadModel>* head);

// Its memory in a plan, which lives as long as the head.
DrafterMemory head_memory(const HeadModel& head);

// Makes its drafter for `target`, which knows no text. The ledger has the head's part of the plan.
Status make_head_drafter(HeadModel& head, const Forward& target, Ledger* ledger, std::unique_ptr<Drafter>* made);

}  // namespace edgedec::engine
