// Passes on the CPU without ONNX Runtime: the kernels of model.onnx, called in the order of a program, on one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/block.h"
#include "engine/base/files.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "engine/model/state_memory.h"
#include "engine/web/cpu_program.h"
#include "engine/web/edgedec_web.h"

namespace edgedec::engine {

constexpr const char* kCpuProgram = "cpu.json";

// A model with the KV cache of one sequence, in which every layer keeps all tokens as fp16, and its recurrent states.
class CpuModel {
 public:
  // Reads the program in `folder`, maps the weights, and takes memory for passes of at most `max_pass` tokens.
  static Status open(const std::string& folder, const ModelSpec& spec, int64_t capacity, int64_t max_pass,
                     std::unique_ptr<CpuModel>* made);

  // Computes a pass, and writes its results into its places.
  Status run(const edgedec_web_pass& pass);

 private:
  // The pass under way. `first`: the first token whose row is chosen.
  struct Run {
    const edgedec_web_pass& pass;
    std::vector<int64_t> positions, parents;
    size_t first;

    size_t count(CpuRows over) const;
  };
  // The keys and values of a kind, of which a token has so many numbers.
  struct KeysPlace {
    size_t layers, heads, dim, first;

    size_t numbers() const { return 2 * layers * heads * dim; }
  };

  CpuModel() = default;
  Status take_memory(const ModelSpec& spec, size_t most);
  void move(const edgedec_web_pass& pass);
  Status follow(const Run& run);
  void run(const CpuNode& node, const Run& run);
  void attend(const CpuNode& node, const Run& run, float* out);
  recurrent::Sequence sequence(const CpuNode& node, const Run& run, size_t token_row);
  void convolve(const CpuNode& node, const Run& run, float* out);
  void apply_delta(const CpuNode& node, const Run& run, float* out);
  void head(const CpuNode& node, const Run& run);
  uint16_t* layer(const KeysPlace& keys, size_t at) {
    return reinterpret_cast<uint16_t*>(kv_.data()) + (keys.first + at * 2 * keys.heads * keys.dim) * capacity_;
  }
  float* buffer(int at) { return at < 0 ? nullptr : buffers_[static_cast<size_t>(at)]; }

  MappedFile weights_;
  CpuProgram program_;
  std::vector<KeysPlace> keys_;
  size_t capacity_ = 0;
  Block kv_, memory_;
  StateMemory states_;
  std::vector<float*> buffers_;
  float* scratch_ = nullptr;  // of an op: queries, or what a convolution reads
  std::vector<uint16_t> moved_;
  std::unique_ptr<Parallel> thread_;
};

}  // namespace edgedec::engine
