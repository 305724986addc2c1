// A small model as a drafter: a bundle with a session and a KV cache of its own. edgedec/drafters/model.py.
//
// Memory: its weights and its tokenizer; a cache of at most its own context; the scratch of its passes, which are short.
#pragma once

#include <memory>
#include <string>

#include "engine/bundle/manifest.h"
#include "core/decode/drafter.h"
#include "engine/drafters/registry.h"
#include "engine/drafters/trim.h"
#include "engine/drafters/vocabulary_pair.h"
#include "engine/memory/budget.h"
#include "engine/model/onnx_model.h"
#include "engine/text/tokenizer.h"

namespace edgedec::engine {

// The model that it is to draft for.
struct DraftTarget {
  const Manifest& manifest;
  const Tokenizer& tokenizer;
  const OnnxModel& model;
};

class SmallModel {
 public:
  // Opens the model of `spec`. kBadFile and kBackend where it cannot be used, kUnsupported where it cannot draft for
  // `target`. `note` gets a line for what it goes without, if anything.
  static Status open(const Runtime& runtime, const DrafterSpec& spec, const DraftTarget& target, std::string* note,
                     std::unique_ptr<SmallModel>* model);

  // Its memory in a plan, which lives as long as this.
  DrafterMemory memory() const { return {"drafter", memory_.weights, draft_model_rest, &memory_}; }
  // Makes a drafter, which knows no text, within the plan of `budget`. The KV cache is allocated once.
  Status make(Budget& budget, std::unique_ptr<Drafter>* made);

 private:
  SmallModel() = default;

  std::string name_;
  Manifest manifest_;
  std::unique_ptr<OnnxModel> model_;
  VocabularyPair vocabulary_;
  std::shared_ptr<TrimmedHead> trimmed_;
  ModelMemory memory_;
  std::unique_ptr<Ledger> ledger_;
  Lease kept_;  // of the kept ids, here and in the drafter
  std::unique_ptr<Forward> forward_;
};

}  // namespace edgedec::engine
