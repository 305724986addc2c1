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
  // The only token that may come next; below 0 where there is a choice.
  virtual int32_t forced() = 0;

 protected:
  ~Grammar() = default;
};

}  // namespace edgedec::engine
