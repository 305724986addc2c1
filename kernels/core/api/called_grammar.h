// A grammar of the host's, which is called back.
#pragma once

#include <utility>

#include "core/api/marshal.h"
#include "core/decode/grammar.h"

namespace edgedec::engine::api {

class CalledGrammar final : public Grammar {
 public:
  explicit CalledGrammar(const edgedec_core_grammar& of) : of_(of) {}

  Status follow(Span<const int32_t> tokens, bool* finished) override {
    const int found = of_.follow(tokens.data(), static_cast<int64_t>(tokens.size()));
    *finished = found > 0;
    return found < 0 ? error() : Status();
  }
  int64_t forced(int32_t* tokens, int64_t most) override {
    const int found = of_.forced(tokens, most);
    failed_ |= found < 0;
    return found;
  }
  bool permits(int32_t token) override { return of_.permits(token) != 0; }
  const uint8_t* bits() override { return of_.bits(); }

  // The failure of a callback that has no other way to say so, since the call before.
  Status failure() { return std::exchange(failed_, false) ? error() : Status(); }

 private:
  static Status error() { return {Code::kBackend, "the grammar failed"}; }

  const edgedec_core_grammar of_;
  bool failed_ = false;
};

}  // namespace edgedec::engine::api
