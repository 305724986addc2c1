// The graphs of drafters of one decoder layer: their sizes, and the tables that they read.
#pragma once

#include <utility>
#include <vector>

#include "core/draft/layer_forward.h"
#include "engine/bundle/drafter_facts.h"

namespace edgedec::engine {

constexpr int64_t kLongestOfLayer = 64;  // most tokens of a pass

// The graph of a layer: its file, its sizes, and the tables that it reads.
struct LayerGraph {
  const char* file;
  const char* name;  // the drafter, in messages
  const char* described;
  LayerFacts facts;
  LayerSizes sizes;  // but for those of a cache
  std::vector<std::pair<const char*, TableFacts>> tables;
  bool trims = false;    // whether a pass can be told the ids to compute the head for; others end with -1
  int64_t predicted = 0;  // ids that it may predict
  int64_t weights = 0;    // bytes that are mapped
};

// `weights`: bytes of the file of its weights; `vocabulary`: the target's.
LayerGraph graph_of(const HeadFacts& facts, int64_t weights, int64_t vocabulary);
LayerGraph graph_of(const MtpFacts& facts, int64_t weights);

}  // namespace edgedec::engine
