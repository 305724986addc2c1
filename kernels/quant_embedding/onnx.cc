#include <mutex>
#include <optional>

#include "ort/ops.h"
#include "quant_embedding/quant_embedding.h"

namespace edgedec::ort {
namespace {

struct QuantEmbedding {
  static constexpr const char* kName = "QuantEmbedding";
  static constexpr Port kInputs[] = {{kInt64}, {kUint8}};
  static constexpr Port kOutputs[] = {{kFloat}};

  explicit QuantEmbedding(const Info& info)
      : table(info.text("format"), info.integer("rows"), info.integer("cols")),
        scale(info.real("scale", 1.0f)),
        alone(info.integer("alone", 0) != 0) {}

  void compute(Context& c) {
    const Weight& w = table.at(c, 1);
    const size_t n = c.elements(0);
    auto* out = c.output<float>(0, {static_cast<int64_t>(n), w.cols});
    if (alone) std::call_once(looked_for, [&] { file.emplace(w.data, w.bytes()); });
    const MappedFile* mapped = file && file->holds(w.data) ? &*file : nullptr;  // a table may change between calls
    if (!quant_embedding::embed(w, c.data<const int64_t>(0), static_cast<int>(n), scale, out, mapped))
      throw Error("token id outside the vocabulary of " + std::to_string(w.rows));
  }

  WeightInput table;
  float scale;
  bool alone;  // no other op reads the table, so it need not be resident
  std::once_flag looked_for;
  std::optional<MappedFile> file;
};

}  // namespace

const OrtCustomOp* quant_embedding_op() {
  static const CustomOp<QuantEmbedding> op;
  return &op;
}

}  // namespace edgedec::ort
