// A model and a clock that tests play.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "core/decode/forward.h"

extern "C" {

// A model that a test plays. Calls return a Code.
struct ProbeForward {
  int64_t vocab_size, head_k, capacity, max_pass, most_undone;
  int64_t (*length)();
  int64_t (*reachable)(int64_t length);
  int (*rewind)(int64_t length);
  int (*keep_path)(const int* nodes, size_t count);
  // `rows`: indices; it calls edgedec_probe_head with `head`.
  int (*extend)(const int32_t* tokens, size_t count, const int* parents, size_t parent_count, const int* rows, size_t row_count,
                int full, double temperature, void* head);
  double (*clock)();
  // A peek at one token, or null for a model without exits; it fills `head`. `exits` are four.
  int (*peek)(int32_t token, int exit, const int64_t* keep, size_t keep_count, void* head);
};

}  // extern "C"

namespace edgedec::engine {

class PlayedForward final : public Forward {
 public:
  explicit PlayedForward(const ProbeForward& calls) : calls_(calls) {
    spec_.name = "fake";
    spec_.vocab_size = calls.vocab_size;
    spec_.head_k = calls.head_k;
  }
  const ModelSpec& spec() const override { return spec_; }
  int64_t max_pass() const override { return calls_.max_pass; }
  int64_t capacity() const override { return calls_.capacity; }
  int64_t length() const override { return calls_.length(); }
  int64_t most_undone() const override { return calls_.most_undone; }
  int64_t reachable(int64_t length) const override { return calls_.reachable(length); }
  Status rewind(int64_t length) override {
    peeked_.clear();
    return status(calls_.rewind(length));
  }
  Status keep_path(Span<const int> nodes) override {
    peeked_.clear();
    return status(calls_.keep_path(nodes.data(), nodes.size()));
  }
  Span<const int> exits() const override { return {kExits, calls_.peek ? std::size(kExits) : 0}; }
  Span<const int32_t> peeked() const override { return peeked_; }
  Status peek(Span<const int32_t> tokens, LayerSubset layers, const Rows& rows, HeadRows* found) override {
    if (layers.exit != exit_) peeked_.clear();
    exit_ = layers.exit;
    peeked_.push_back(tokens[0]);
    return status(calls_.peek(tokens[0], layers.exit, rows.keep.data(), rows.keep.size(), found));
  }
  Status extend(Span<const int32_t> tokens, Span<const int> parents, const Rows& rows, HeadRows* found) override {
    peeked_.clear();
    std::vector<int> indices(rows.indices.begin(), rows.indices.end());
    for (size_t at = 0; rows.which == Rows::kAll && at < tokens.size(); ++at) indices.push_back(static_cast<int>(at));
    if (rows.which == Rows::kLast) indices.assign(1, static_cast<int>(tokens.size()) - 1);
    return status(calls_.extend(tokens.data(), tokens.size(), parents.data(), parents.size(), indices.data(), indices.size(),
                                rows.full, rows.temperature, found));
  }
  std::string cache_layout() const override { return "played"; }
  int64_t cache_bytes(int64_t) const override { return 0; }
  Status write_cache(CacheSink&, int64_t) override { return {Code::kUnsupported, "played"}; }
  Status read_cache(CacheSource&, int64_t) override { return {Code::kUnsupported, "played"}; }

 private:
  static Status status(int code) { return code ? Status(static_cast<Code>(code), "the played model failed") : Status(); }
  static constexpr int kExits[] = {1, 2, 3, 4};
  ProbeForward calls_;
  ModelSpec spec_;
  std::vector<int32_t> peeked_;
  int exit_ = 0;
};

class PlayedClock final : public Clock {
 public:
  explicit PlayedClock(double (*clock)()) : clock_(clock) {}
  double now() override { return clock_(); }

 private:
  double (*clock_)();
};

}  // namespace edgedec::engine
