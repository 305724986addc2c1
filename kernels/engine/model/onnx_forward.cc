#include "engine/model/onnx_forward.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/format.h"

namespace edgedec::engine {

OnnxForward::OnnxForward(const Runtime& runtime, OrtSession* session, const ModelSpec& spec, int64_t max_pass,
                         Ledger* ledger, KvMemory kv, Lease scratch)
    : kv_(std::move(kv)),
      scratch_(std::move(scratch)),
      setting_{runtime, session, spec, kv_, ledger},
      max_pass_(max_pass),
      book_(kv_.capacity(), spec.window, kv_.ring()),
      passes_(setting_) {}

Status OnnxForward::check_tokens(Span<const int32_t> tokens) const {
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > max_pass_)
    return {Code::kUsage, decimal(count) + " tokens in one pass: at most " + decimal(max_pass_)};
  for (int32_t token : tokens)
    if (token < 0 || token >= spec().vocab_size)
      return {Code::kUsage, "a token is outside the vocabulary of " + decimal(spec().vocab_size)};
  return {};
}

Status OnnxForward::resolve(const Rows& rows, size_t tokens) {
  chosen_.clear();
  if (rows.which == Rows::kLast) {
    chosen_.push_back(static_cast<int>(tokens) - 1);
  } else if (rows.which == Rows::kAll) {
    chosen_.resize(tokens);
    std::iota(chosen_.begin(), chosen_.end(), 0);
  } else {
    chosen_.assign(rows.indices.begin(), rows.indices.end());
  }
  for (int row : chosen_)
    if (row < 0 || static_cast<size_t>(row) >= tokens)
      return {Code::kUsage, "row " + decimal(row) + " is outside a pass over " + decimal(uint64_t{tokens}) + " tokens"};
  return {};
}

Status OnnxForward::extend(Span<const int32_t> tokens, Span<const int> parents, const Rows& rows, HeadRows* found) {
  EDGEDEC_TRY(check_tokens(tokens));
  if (!tokens.empty()) EDGEDEC_TRY(resolve(rows, tokens.size()));
  EDGEDEC_TRY(book_.plan(static_cast<int64_t>(tokens.size()), parents, &planned_));
  EDGEDEC_TRY(kv_.use());
  EDGEDEC_TRY(passes_.run({tokens, planned_, chosen_, rows.full, rows.temperature}, found));
  book_.append(planned_);
  return {};
}

void OnnxForward::free_logits(HeadRows* found) {
  Forward::free_logits(found);
  passes_.end_rows();
}

Status OnnxForward::rewind(int64_t length) {
  reached_ = std::max(reached_, book_.length());
  EDGEDEC_TRY(book_.rewind(length));
  if (kv_.release(book_.length(), reached_)) reached_ = book_.length();
  return {};
}

Status OnnxForward::keep_path(Span<const int> nodes) {
  EDGEDEC_TRY(book_.keep(nodes, &moves_));
  kv_.move(moves_);
  return {};
}

Status OnnxForward::write_cache(CacheSink& sink, int64_t length) {
  const bool held = length >= 0 && length <= book_.length() && book_.reachable(length) == length;
  if (!book_.settled() || !held)
    return {Code::kUsage, "cannot write " + decimal(length) + " tokens: the cache does not hold them, or an open tree"};
  return kv_.write(sink, length, book_.oldest());
}

Status OnnxForward::read_cache(CacheSource& source, int64_t length) {
  EDGEDEC_TRY(rewind(0));
  if (!length) return {};
  Status read = read_slots(source, length);
  if (!read.ok()) {
    EDGEDEC_TRY(rewind(0));
  }
  return read;
}

Status OnnxForward::read_slots(CacheSource& source, int64_t length) {
  int64_t oldest = 0;
  EDGEDEC_TRY(book_.plan(length, {}, &planned_));
  EDGEDEC_TRY(kv_.use());
  EDGEDEC_TRY(kv_.read(source, length, &oldest));
  book_.lose(oldest);
  book_.append(planned_);
  if (book_.reachable(length) == length) return {};
  return {Code::kBadFile, "a saved cache of " + decimal(length) + " tokens lacks some that the next one sees"};
}

}  // namespace edgedec::engine
