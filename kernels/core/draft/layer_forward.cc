#include "core/draft/layer_forward.h"

#include <cmath>

namespace edgedec::engine {

Status LayerForward::step(const LayerPass& pass, HeadPass* found) {
  if (lost_) EDGEDEC_TRY(rewind(length_));
  lost_ = true;
  EDGEDEC_TRY(compute(pass, found));
  lost_ = false;
  length_ += static_cast<int64_t>(pass.tokens.size());
  ++work_.passes;
  work_.bytes_read += read_bytes(pass);
  work_.table_bytes += sizes_.table;
  return {};
}

Status LayerForward::rewind(int64_t length) {
  if (length == length_ && !lost_) return {};
  EDGEDEC_TRY(forget(length));
  length_ = length;
  lost_ = false;
  return {};
}

int64_t LayerForward::read_bytes(const LayerPass& pass) const {
  int64_t bytes = sizes_.always + sizes_.slot * length_;
  if (!pass.taps.empty()) bytes += sizes_.committed;
  if (!pass.rows.empty())
    bytes += pass.keep.empty() ? sizes_.head : sizes_.head * static_cast<int64_t>(pass.keep.size()) / sizes_.ids;
  if (!sizes_.experts) return bytes;
  const double left_out = 1.0 - static_cast<double>(sizes_.chosen) / static_cast<double>(sizes_.count);
  const double taken = 1.0 - std::pow(left_out, static_cast<double>(pass.tokens.size()));
  return bytes + static_cast<int64_t>(static_cast<double>(sizes_.experts) * taken);
}

}  // namespace edgedec::engine
