// Graphs on the CPU without ONNX Runtime: their kernels, called in the order of a program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/parallel.h"
#include "engine/base/block.h"
#include "engine/base/files.h"
#include "core/base/span.h"
#include "core/base/status.h"
#include "engine/model/layer_states.h"
#include "engine/web/cpu_caches.h"
#include "engine/web/cpu_program.h"
#include "head_topk/head_topk.h"

namespace edgedec::engine {

// The arguments of a pass, and where its results go. Token i lies in slot length + i.
struct CpuPass {
  Span<const int32_t> tokens;
  Span<const int64_t> positions, parents;
  size_t length = 0;
  size_t done = 0;     // first tokens that went through the layers before: their keys are there
  size_t applied = 0;  // tokens that recurrent states cover before it
  Span<const int32_t> chosen = {};  // tokens whose rows are wanted
  Span<const int64_t> keep = {};    // ids that the head computes; none: all
  float inverse = 1.0f;             // 1 / temperature
  head_topk::Result result = {};
  LayerStates* outs = nullptr;      // takes the outputs of its layers, of the tokens that are not done
  Span<const float> taps = {}, states = {};  // of a drafter: hidden states of the first tokens, states of the others
};

// The program of a graph, the folder of its weights, and for a drafter the tokens that rows of its head stand for, where there
// is such a file, and the folder of the target, whose weights it reads too.
struct CpuFiles {
  std::string program, folder, ids, target;

  static CpuFiles of_model(const std::string& folder);
  static CpuFiles of_drafter(const std::string& target, const std::string& folder, const char* kind);
};

class CpuModel {
 public:
  // Reads the program, maps the weights, and takes memory for passes of at most `most` tokens over `caches`, which outlive it.
  static Status open(const CpuFiles& files, const CpuShape& shape, size_t most, CpuCaches* caches, std::unique_ptr<CpuModel>* made);

  CpuCaches& caches() { return *caches_; }
  // Numbers of layers that can be run apart, ascending to all; layers, ascending, whose outputs are to be had.
  const std::vector<int>& exits() const { return program_.exits; }
  const std::vector<int>& taps() const { return taps_; }
  // Whether it reads keys of this kind.
  bool attends_to(size_t kind) const;
  // Numbers of a row of hidden states.
  size_t width() const { return program_.nodes[program_.ending].width; }
  // Bytes of its own weights, in whole pages as other hosts map them, and those of passes.
  int64_t weight_bytes() const { return (static_cast<int64_t>(weights_.size()) + kPage - 1) / kPage * kPage; }
  int64_t pass_bytes() const { return static_cast<int64_t>(memory_.size()); }

  // Computes the layers behind the first `from`, and of the first `to`; 0: all, and the head. Layers behind others go on with
  // the rows that enter() has placed or the call before has computed, which was over the same tokens.
  Status run(const CpuPass& pass, int from = 0, int to = 0);
  // Puts rows before the `behind` ones that the first `exit` layers have just computed.
  void enter(int exit, Span<const float> rows, size_t behind);
  // Computes the norm and the head for chosen rows, counted from the first of `rows`.
  Status end(const CpuPass& pass, Span<const float> rows);
  // The states behind the chosen tokens of a drafter's pass.
  Span<const float> states() const { return out_; }

 private:
  // The pass under way. `first`: the first token whose row is chosen.
  struct Run {
    const CpuPass& pass;
    size_t first, width;  // width: numbers of a row of hidden states

    size_t count(CpuRows over) const;
    size_t before(CpuRows over) const { return over == CpuRows::kFromFirst ? first : pass.done; }
  };

  CpuModel() = default;
  Status read_ids(const std::string& path, int64_t rows);
  Status take_memory(size_t most);
  Run begun(const CpuPass& pass) const;
  Status run_nodes(const Run& run, size_t begin, size_t end);
  Status check_states(const Run& run);
  void run(const CpuNode& node, const Run& run);
  void take_out(size_t at, const Run& run);
  void place(const CpuNode& node, const Run& run, float* out);
  void mix(const CpuNode& node, int m, float* out);
  void attend(const CpuNode& node, const Run& run, float* out);
  recurrent::Sequence sequence(const CpuNode& node, const Run& run, size_t token_row);
  void convolve(const CpuNode& node, const Run& run, float* out);
  void apply_delta(const CpuNode& node, const Run& run, float* out);
  void choose_rows(const CpuNode& node);
  void head(const CpuNode& node, const Run& run);
  float* buffer(int at) { return at < 0 ? nullptr : buffers_[static_cast<size_t>(at)]; }

  MappedFile weights_, shared_;
  CpuProgram program_;
  std::vector<int> taps_;
  std::vector<int32_t> ids_;  // tokens that rows of the head stand for; none: the rows themselves
  CpuCaches* caches_ = nullptr;
  Block memory_;
  std::vector<float*> buffers_;
  float* scratch_ = nullptr;  // of an op: queries, or what a convolution reads
  std::vector<float> out_;
  std::vector<int64_t> nearest_;  // rows that a pass chose for its head
  std::unique_ptr<Parallel> thread_;
};

}  // namespace edgedec::engine
