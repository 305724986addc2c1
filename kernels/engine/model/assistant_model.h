// An assistant of Gemma 4 in ONNX Runtime: steps over one token that read the target's cache in place.
// edgedec/backends/onnx/assistant_forward.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/decode/forward.h"
#include "core/draft/assistant_steps.h"
#include "engine/bundle/drafter_facts.h"
#include "engine/model/runtime.h"
#include "engine/model/step_buffers.h"

namespace edgedec::engine {

// An assistant whose weights are mapped. It reads the target's embedding in place.
class AssistantModel {
 public:
  // `folder` has the graph and its weights, `target` the bundle of the model that it drafts for. kBadFile, kBackend.
  static Status open(const Runtime& runtime, const std::string& folder, const std::string& target, const AssistantFacts& facts,
                     int threads, std::unique_ptr<AssistantModel>* model);

  int64_t weights() const { return weights_; }
  // Makes what computes steps over the keys of `target`; its buffers are leased from `ledger`. All outlive it. kBadFile where
  // the keys are not those that the graph was made for.
  Status steps(const Forward& target, Ledger* ledger, std::unique_ptr<AssistantSteps>* steps) const;
  // The bytes of a step over `context` slots beside its weights.
  int64_t step_bytes(int64_t context) const;

 private:
  friend class OnnxAssistantSteps;
  AssistantModel() = default;
  Status check();
  int64_t scratch(int64_t context) const;

  Runtime runtime_;
  AssistantFacts facts_;
  int threads_ = 1;
  int64_t weights_ = 0;
  MappedTables table_;
  SessionOwner session_;
  std::vector<Ports::Port> caches_;  // inputs of the graph that are the target's keys
};

}  // namespace edgedec::engine
