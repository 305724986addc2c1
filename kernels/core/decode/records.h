// Records of decoding: a committed token and a pass. edgedec/decode/records.py.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/span.h"
#include "core/tree.h"

namespace edgedec::engine {

enum class Finish { kNone, kStop, kLength };

constexpr Source kTarget = -1;  // in place of a drafter: the target itself, whose token ends each round

// One committed token.
struct Step {
  int32_t token = 0;
  int64_t position = 0;           // in the sequence; the prompt's first token has 0
  Finish finish = Finish::kNone;  // set on the last token of a reply
  Source source = kTarget;
  std::optional<double> bound;    // mirostat's state after the token
};

// One pass: `fed` tokens from slot `start` on, of which the last `drafted` are `tree`. `committed` tokens came of it,
// `path` are the accepted nodes of `tree`.
struct PassRecord {
  int64_t start = 0, fed = 0, committed = 0;
  double seconds = 0.0;
  int64_t drafted = 0;
  const DraftTree* tree = nullptr;  // none: no draft
  Span<const int> path;
};

// Sees every pass.
class PassObserver {
 public:
  virtual void passed(const PassRecord& record) = 0;

 protected:
  ~PassObserver() = default;
};

// Hears of a reply while it is computed. Each call returns whether to go on.
class ReplyListener {
 public:
  // How many tokens of the prompt the cache holds.
  virtual bool progress(int64_t done, int64_t total) = 0;
  // A token is committed.
  virtual bool step(const Step& step) = 0;

 protected:
  ~ReplyListener() = default;
};

}  // namespace edgedec::engine
