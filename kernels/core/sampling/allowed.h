// The tokens that may come next, as a grammar has them.
#pragma once

#include <cstdint>

namespace edgedec::engine {

// Asked while a token is drawn. An error inside is the host's to note: it is asked for it behind the draw.
class Allowed {
 public:
  // Whether `token` may come next; cheaper than bits().
  virtual bool permits(int32_t token) = 0;
  // A bit for each token of the vocabulary, that of id 0 the lowest of the first byte; 1: it may come next. Valid until the
  // draw is over. Null: it failed.
  virtual const uint8_t* bits() = 0;

 protected:
  ~Allowed() = default;
};

}  // namespace edgedec::engine
