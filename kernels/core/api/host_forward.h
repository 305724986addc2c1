// A forward of the host, as drafters of the core call it.
#pragma once

#include "core/api/marshal.h"
#include "core/decode/forward.h"

namespace edgedec::engine::api {

class HostForward final : public DraftForward {
 public:
  explicit HostForward(const edgedec_core_forward& calls) : calls_(calls) {}

  int64_t max_pass() const override { return calls_.max_pass; }
  int64_t capacity() const override { return calls_.capacity; }
  int64_t most_undone() const override { return calls_.most_undone; }
  bool trees() const override { return calls_.trees; }
  double share() const override { return calls_.share ? *calls_.share : 1.0; }
  int64_t length() const override { return calls_.length(); }
  bool has_peeked() const override { return calls_.peeked() != 0; }
  int64_t reachable(int64_t length) const override { return calls_.reachable(length); }
  Status rewind(int64_t length) override { return host_status(calls_.rewind(length)); }
  Status keep_path(Span<const int> nodes) override {
    return host_status(calls_.keep_path(nodes.data(), static_cast<int64_t>(nodes.size())));
  }

  Status extend(Span<const int32_t> tokens, Span<const int> parents, const Rows& rows, HeadRows* found) override {
    const auto count = static_cast<int64_t>(tokens.size());
    edgedec_core_head head = {};
    EDGEDEC_TRY(host_status(calls_.extend(tokens.data(), count, parents.empty() ? nullptr : parents.data(), wanted(rows),
                                     !rows.keep.empty(), &head)));
    copy(view(head), found);
    return {};
  }

  Status peek(Span<const int32_t> tokens, LayerSubset layers, const Rows& rows, HeadRows* found) override {
    const auto count = static_cast<int64_t>(tokens.size());
    edgedec_core_head head = {};
    EDGEDEC_TRY(host_status(calls_.peek(tokens.data(), count, layers.exit, layers.resume, !rows.keep.empty(), &head)));
    copy(view(head), found);
    return {};
  }

 private:
  static int wanted(const Rows& rows) {
    if (rows.which == Rows::kChosen) return EDGEDEC_CORE_NO_ROWS;
    return rows.which == Rows::kAll ? EDGEDEC_CORE_ALL_ROWS : EDGEDEC_CORE_LAST_ROW;
  }

  const edgedec_core_forward calls_;
};

}  // namespace edgedec::engine::api
