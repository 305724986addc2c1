// The grammar that a reply keeps to, as the host has it.
#pragma once

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/sampling/allowed.h"

namespace edgedec::engine {

// It stands at a place of the reply, and says of that place what Allowed says. It walks ahead over drafts.
class Grammar : public Allowed {
 public:
  // Goes to behind `tokens`, which may be taken back: they follow the committed ones. They begin with those of the
  // call before, or are some of these. `finished`: whether nothing may come next.
  virtual Status follow(Span<const int32_t> tokens, bool* finished) = 0;
  // Writes the tokens that come next for certain, at most `most`, up to the first choice. Returns how many there are; below
  // 0 where it failed.
  virtual int64_t forced(int32_t* tokens, int64_t most) = 0;

 protected:
  ~Grammar() = default;
};

}  // namespace edgedec::engine
