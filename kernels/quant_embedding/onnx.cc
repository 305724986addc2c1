#include <optional>

#include "common/lock.h"
#include "ort/ops.h"
#include "quant_embedding/quant_embedding.h"

namespace edgedec::ort {
namespace {

struct QuantEmbedding {
  static constexpr const char* kName = "QuantEmbedding";
  static constexpr Port kInputs[] = {{kInt64}, {kUint8}};
  static constexpr Port kOutputs[] = {{kFloat}};

  explicit QuantEmbedding(const Info& info)
      : table(info, info.text("format"), info.integer("rows"), info.integer("cols")),
        scale(info.real("scale", 1.0f)),
        alone(info.integer("alone", 0) != 0) {}

  void compute(Context& c) {
    const Weight& w = table.at(c, 1);
    const size_t n = c.elements(0);
    auto* out = c.output<float>(0, {static_cast<int64_t>(n), w.cols});
    const auto* ids = c.data<const int64_t>(0);
    if (!c.ok()) return;
    const MappedFile* mapped = alone ? mapping(w) : nullptr;
    if (!quant_embedding::inside(w, ids, static_cast<int>(n)))
      return c.fail("token id outside the vocabulary of " + std::to_string(w.rows));
    if (!quant_embedding::embed(w, ids, static_cast<int>(n), scale, out, mapped)) c.lack_memory();
  }

  const MappedFile* mapping(const Weight& w) {
    const Guard guard(mutex);
    if (!file) file.emplace(w.data, w.bytes());
    return file->holds(w.data) ? &*file : nullptr;  // a table may change between calls
  }

  WeightInput table;
  float scale;
  bool alone;  // no other op reads the table, so it need not be resident
  Mutex mutex;
  std::optional<MappedFile> file;
};

}  // namespace

const KernelOp* quant_embedding_op() {
  static const CustomOp<QuantEmbedding> op;
  return &op;
}

}  // namespace edgedec::ort
