// Page-aligned memory for keys and values: edgedec/backends/onnx/kv_pages.py. Reserved at once, committed by the system
// as it is written.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/block.h"
#include "core/base/span.h"
#include "core/base/status.h"

namespace edgedec::engine {

// Keys and values of two bytes each, [layers, 2, kv heads, rows, row], zero at first; slot s lies in row s modulo rows.
class KvPages {
 public:
  using Shape = int64_t[5];

  Status allocate(const Shape& shape);

  uint8_t* data() const { return block_.data(); }
  const Shape& shape() const { return shape_; }
  // Slots held at a time.
  int64_t rows() const { return shape_[3]; }
  int64_t bytes() const { return bytes_; }
  // Bytes of one slot in all layers, and of its row in one head.
  int64_t slot_bytes() const { return heads() * row_bytes_; }
  int64_t row_bytes() const { return row_bytes_; }
  int64_t heads() const { return shape_[0] * shape_[1] * shape_[2]; }

  // Copies slots in every layer. They ascend, and none moves up, so that no slot is read after it was written.
  void move(const std::vector<int64_t>& from, const std::vector<int64_t>& to);
  // Returns the pages of rows from `first` on to the operating system; their contents are undefined. A page in which the
  // next head begins stays: it belongs to both.
  void give_back(int64_t first);
  // Memory of the slots [first, end) of a head of keys or values: one piece, or two in a ring that goes round.
  std::pair<Span<uint8_t>, Span<uint8_t>> head(int64_t number, int64_t first, int64_t end) const;

 private:
  uint8_t* head_data(int64_t number) const { return data() + number * rows() * row_bytes_; }

  Shape shape_ = {};
  int64_t row_bytes_ = 0, bytes_ = 0;
  Block block_;
};

}  // namespace edgedec::engine
