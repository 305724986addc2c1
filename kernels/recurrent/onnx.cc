#include "recurrent/onnx.h"

namespace edgedec::ort {

bool Recurrence::read(Context& c, int64_t layer, size_t taps, size_t token_row, size_t trail_row) {
  tokens = static_cast<size_t>(c.rows(0, static_cast<int64_t>(token_row)));
  if (c.elements(1) != tokens) c.fail("parents do not fit the tokens");
  const std::vector<int64_t> dims = c.shape(4);
  const bool fits = dims.size() == 3 && layer >= 0 && layer < dims[0] && dims[1] >= 1 &&
                    dims[1] % static_cast<int64_t>(recurrent::kTrailSlots) == 0 &&
                    dims[2] == static_cast<int64_t>(trail_row);
  if (!fits) c.fail("the trail must be [layers, 32 for each sequence, " + std::to_string(trail_row) + "]");
  if (!c.ok()) return false;
  sequences = static_cast<size_t>(dims[1]) / recurrent::kTrailSlots;
  if (c.elements(3) != sequences) c.fail("applied must have a number for each sequence of the trail");
  const auto *projected = c.data<const float>(0);
  const auto *parents = c.data<const int64_t>(1), *lengths = c.data<const int64_t>(2), *applied = c.data<const int64_t>(3);
  auto* trail = c.data<float>(4);
  if (!c.ok()) return false;
  if (const char* wrong = read_sequence_list(lengths, c.elements(2), tokens, &list)) return c.fail(wrong), false;
  if (list.parts > sequences) return c.fail("the trail has too few sequences"), false;
  trail += static_cast<size_t>(layer) * static_cast<size_t>(dims[1]) * trail_row;
  for (const SequenceAt& at : list.all) {
    if (applied[at.part] < 0) return c.fail("negative applied"), false;
    all.push_back({parents + at.first, at.tokens, at.length, static_cast<size_t>(applied[at.part]),
                   trail + at.part * recurrent::kTrailSlots * trail_row, trail_row, projected + at.first * token_row,
                   token_row});
    if (const char* wrong = recurrent::problem(all.back(), taps)) return c.fail(wrong), false;
  }
  return true;
}

}  // namespace edgedec::ort
