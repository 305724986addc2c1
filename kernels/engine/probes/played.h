// A model and a clock that tests play.
#pragma once

#include <string>

#include "engine/base/clock.h"
#include "core/decode/forward.h"

extern "C" {

// A model that a test plays. Calls return a Code.
struct ProbeForward {
  int64_t vocab_size, head_k, capacity, max_pass;
  int64_t (*length)();
  int (*rewind)(int64_t length);
  int (*extend)(const int32_t* tokens, size_t count);
  double (*clock)();
};

}  // extern "C"

namespace edgedec::engine {

// Its passes give no rows: their time is all that is measured.
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
  int64_t reachable(int64_t length) const override { return length; }
  Status rewind(int64_t length) override { return status(calls_.rewind(length)); }
  Status keep_path(Span<const int>) override { return {Code::kUnsupported, "played"}; }
  Status extend(Span<const int32_t> tokens, Span<const int>, const Rows&, HeadRows*) override {
    return status(calls_.extend(tokens.data(), tokens.size()));
  }
  std::string cache_layout() const override { return "played"; }
  int64_t cache_bytes(int64_t) const override { return 0; }
  Status write_cache(CacheSink&, int64_t) override { return {Code::kUnsupported, "played"}; }
  Status read_cache(CacheSource&, int64_t) override { return {Code::kUnsupported, "played"}; }

 private:
  static Status status(int code) { return code ? Status(static_cast<Code>(code), "the played model failed") : Status(); }
  ProbeForward calls_;
  ModelSpec spec_;
};

class PlayedClock final : public Clock {
 public:
  explicit PlayedClock(double (*clock)()) : clock_(clock) {}
  double now() override { return clock_(); }

 private:
  double (*clock_)();
};

}  // namespace edgedec::engine
