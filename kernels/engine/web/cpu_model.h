// Passes on the CPU without ONNX Runtime: the kernels of model.onnx, called in the order of a program, on one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/block.h"
#include "engine/base/files.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "engine/web/cpu_program.h"
#include "engine/web/edgedec_web.h"

namespace edgedec::engine {

constexpr const char* kCpuProgram = "cpu.json";

// A model with the KV cache of one sequence, in which every layer keeps all tokens as fp16.
class CpuModel {
 public:
  // Reads the program in `folder`, maps the weights, and takes memory for passes of at most `max_pass` tokens.
  static Status open(const std::string& folder, const ModelSpec& spec, int64_t capacity, int64_t max_pass,
                     std::unique_ptr<CpuModel>* made);

  // Computes a pass, and writes its results into its places.
  Status run(const edgedec_web_pass& pass);

 private:
  // The pass under way.
  struct Run {
    const edgedec_web_pass& pass;
    std::vector<int64_t> positions, parents;
  };

  CpuModel() = default;
  void move(const edgedec_web_pass& pass);
  void run(const CpuNode& node, const Run& run);
  void attend(const CpuNode& node, const Run& run, float* out);
  void head(const CpuNode& node, const Run& run);
  uint16_t* layer(size_t at) { return reinterpret_cast<uint16_t*>(kv_.data()) + at * 2 * heads_ * capacity_ * dim_; }
  float* buffer(int at) { return at < 0 ? nullptr : buffers_[static_cast<size_t>(at)]; }

  MappedFile weights_;
  CpuProgram program_;
  size_t layers_ = 0, heads_ = 0, dim_ = 0, capacity_ = 0;
  Block kv_, memory_;
  std::vector<float*> buffers_;
  float* queries_ = nullptr;
  std::vector<uint16_t> moved_;
  std::unique_ptr<Parallel> thread_;
};

}  // namespace edgedec::engine
