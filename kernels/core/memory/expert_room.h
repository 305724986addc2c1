// Where the experts of a model are: in memory, or on the disk with slots in memory for some of them.
#pragma once

#include <cstdint>

#include "core/model_spec.h"

namespace edgedec::engine {

// Bytes that a process needs beside all weights: a cache, the buffers of passes, Python.
constexpr int64_t kBesideWeights = int64_t{512} << 20;

struct ExpertRoom {
  bool on_disk = false;  // there is no room for all
  bool direct = false;   // nor has the system's cache room for the file
  int64_t slots = 0, most = 0;  // until a memory plan says how many, and that there are at most
};

// Memory in bytes; -1: none is stated.
struct MemoryLeft {
  int64_t budget = -1;   // that the process may take
  int64_t machine = -1;  // that the machine has left
  int64_t beside = 0;    // of either, that weights of drafters need
};

// `weights`: bytes of the file that has the experts among others. A budget may be larger than the machine.
ExpertRoom expert_room(const Experts& experts, int64_t weights, const MemoryLeft& left);

}  // namespace edgedec::engine
