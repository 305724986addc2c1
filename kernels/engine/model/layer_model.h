// Drafters of one decoder layer in ONNX Runtime, with a cache of their own: trained heads and MTP layers. They read tables in
// the weights of their target. edgedec/backends/onnx/layer_forward.py.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/memory/ledger.h"
#include "engine/model/layer_graph.h"
#include "engine/model/runtime.h"
#include "engine/model/step_buffers.h"

namespace edgedec::engine {

// A layer whose weights are mapped.
class LayerModel {
 public:
  // `folder` has the graph and its weights, `target` the bundle of the model that it drafts for. kBadFile, kBackend.
  static Status open(const Runtime& runtime, const std::string& folder, const std::string& target, LayerGraph graph,
                     int threads, std::unique_ptr<LayerModel>* model);

  const LayerGraph& graph() const { return graph_; }
  int threads() const { return threads_; }
  // Makes an empty cache of `capacity` positions, leased from `ledger`. Both outlive it.
  Status forward(int64_t capacity, Ledger* ledger, std::unique_ptr<LayerForward>* forward) const;

 private:
  friend class OnnxLayerForward;
  explicit LayerModel(LayerGraph graph) : graph_(std::move(graph)) {}
  Status check() const;

  Runtime runtime_;
  LayerGraph graph_;
  int threads_ = 1;
  MappedTables tables_;
  SessionOwner session_;
};

// The bytes of a layer beside its weights, with `context` positions in its cache.
int64_t layer_bytes(const LayerGraph& graph, int threads, int64_t context);

}  // namespace edgedec::engine
