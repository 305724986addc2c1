// Inputs and outputs of a small graph that runs often: memory made once, and a binding for each shape.
// edgedec/backends/onnx/step_buffers.py.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/draft/head_pass.h"
#include "core/memory/ledger.h"
#include "engine/base/files.h"
#include "engine/bundle/drafter_facts.h"
#include "engine/model/ports.h"
#include "engine/model/runtime.h"

namespace edgedec::engine {

class StepBuffers {
 public:
  // Numbers of rows of a step, by what is counted; kOne never changes.
  enum Count : size_t { kOne, kTokens, kCommitted, kDrafted, kRows, kKept, kCounts };
  using Counts = int64_t[kCounts];

  StepBuffers(const Runtime& runtime, OrtSession* session, Ledger* ledger);

  // Makes an input, or an output, for at most `most` rows of `columns` numbers (0: a vector).
  template <class T>
  T* input(const char* name, Count what, int64_t most, int64_t columns = 0) {
    return static_cast<T*>(add(name, true, type_of<T>(), sizeof(T), what, most, columns));
  }
  template <class T>
  T* output(const char* name, Count what, int64_t most, int64_t columns = 0) {
    return static_cast<T*>(add(name, false, type_of<T>(), sizeof(T), what, most, columns));
  }
  // Adds an input whose memory lives longer, and which is bound as it is.
  void share(const char* name, const void* data, int type, size_t width, std::vector<int64_t> dims);
  // Takes the lease of all that was made, and of `scratch` bytes.
  Status lease(int64_t scratch);

  // Computes a step of so many rows.
  Status run(const Counts& counts);

 private:
  struct Buffer {
    const char* name;
    bool input;
    int type;
    size_t width;
    Count what;
    std::vector<int64_t> dims;  // the first one is that of the longest step
    const void* data;
    bool shared;
  };
  struct Bound {
    std::vector<int64_t> counts;
    BindingOwner binding;
  };

  template <class T>
  static int type_of() {
    return std::is_same_v<T, float> ? ort::kFloat : std::is_same_v<T, int32_t> ? ort::kInt32 : ort::kInt64;
  }
  void* add(const char* name, bool input, int type, size_t width, Count what, int64_t most, int64_t columns);
  Status bind(const Counts& counts, OrtIoBinding* binding) const;

  Runtime runtime_;
  OrtSession* session_;
  std::vector<Buffer> all_;
  std::vector<std::vector<int64_t>> memory_;
  int64_t bytes_ = 0;
  std::vector<Bound> kept_;
  Lease scratch_, buffers_;
};

// The outputs of a head, for at most `rows` rows, with the states behind them.
class HeadOutputs {
 public:
  HeadOutputs(StepBuffers* buffers, int64_t rows, int64_t k, StepBuffers::Count states, int64_t most_states, int64_t hidden);

  // Takes the results of a step that predicted `rows` tokens, which `what` computed. kBadFile: they are not numbers, or are
  // outside of `ids`. `padded`: rows of few ids end with -1.
  Status take(Span<const int> rows, int64_t ids, bool padded, const char* what, HeadPass* found) const;

 private:
  int64_t k_, hidden_;
  const float *values_, *logsumexp_, *entropy_, *out_;
  const int32_t* ids_;
};

// Tables of a target in its weights, mapped.
class MappedTables {
 public:
  // `what` reads them. kBadFile where the weights of the bundle `target` end before them.
  Status open(const std::string& target, Span<const TableFacts> tables, const char* what);
  void share(const char* name, const TableFacts& table, StepBuffers* buffers) const;

 private:
  MappedFile weights_;
};

// The inputs and outputs of a drafter's session.
struct DrafterPorts {
  Ports in, out;

  Status read(const Runtime& runtime, const OrtSession* session);
  // Whether these are vectors; of rows of `columns` numbers; the table.
  bool are_vectors(std::initializer_list<const char*> names) const;
  bool are_rows(std::initializer_list<const char*> names, int64_t columns) const;
  bool has_table(const char* name, const TableFacts& table) const;
  bool has_head(int64_t k) const { return are_rows({"values", "ids"}, k) && are_vectors({"logsumexp", "entropy"}); }

 private:
  const Ports::Port* find(const char* name) const;
};

constexpr const char* kMakeAgain = "make the drafter again, or remove it";

}  // namespace edgedec::engine
