// Drafting with the target itself: its first layers, then its own norm and head, perhaps a trimmed one.
// edgedec/draft/exit.py, which says where the method comes from.
//
// A draft is a chain of peeks. The keys and values that they write, and the hidden states after the exit, are those of the
// pass that verifies, which goes on from there: nothing is computed twice.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/calibration.h"
#include "core/decode/drafter.h"
#include "core/draft/choices.h"
#include "core/draft/trimmed_head.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

class ExitDrafter final : public Drafter {
 public:
  // Drafts after the first `exit` layers of `forward`, the target's own, which outlives it. `trimmed`: ids that the head
  // computes while the text consists of them. `ends`: tokens that nothing follows.
  ExitDrafter(Forward& forward, int exit, std::optional<TrimmedHead> trimmed, std::vector<int32_t> ends);

  const char* name() const override { return name_.c_str(); }
  bool peeks() const override { return true; }
  int peeked() const override { return peeked_; }
  void sampled(const DrawParams& params) override { params_ = params; }
  Status begin(Span<const int32_t> tokens, size_t kept) override;
  Status commit(Span<const int32_t> tokens) override;
  // Drafts nothing where the cache lacks more than the last committed token.
  Status propose(int limit, double floor, Source self, DraftTree* tree) override;
  size_t nbytes() const override;

 private:
  Status extend_chain(int limit, double floor);
  void score(Span<const int32_t> committed);

  const std::string name_;
  Forward& forward_;
  const int exit_;
  std::optional<TrimmedHead> trimmed_;
  const std::vector<int32_t> ends_;
  const float unsure_nats_;
  Calibration sure_;
  DrawParams params_;
  std::vector<int32_t> text_;
  DrawHistory history_;
  int peeked_ = 0;

  // The last draft, and the head's own probabilities of its tokens; it followed the first `stated_` committed ones.
  std::optional<size_t> stated_;
  std::vector<int32_t> tokens_;
  std::vector<double> probs_;

  HeadRows head_;
  Choices choices_;
  std::vector<Choice> found_;
};

std::string exit_name(int exit);

// The bytes that a pass over one token reads: of one layer with its part of the KV cache, half full, and of the head.
// Weights are split by their numbers of elements, as if all took as many bytes.
struct ReadBytes {
  double layer = 0.0, head = 0.0;
  static ReadBytes of(const ModelSpec& spec, int64_t weights, int64_t kv_cache);
};

// The speed over plain decoding that drafting with `layers` of a model's `last` promises: they are supposed to be right as
// often as they are of all layers, and nearly all that were measured were right less often. `whole`: the last exit, with a
// trimmed head. `step`: time of a draft step, in passes over one token.
double promised_speed(int layers, int last, bool whole, double step);
// The least that a drafter has to promise, so that it is tried.
double least_promise();

// The exits that can make decoding faster, the one that promises most first. `kept`: the share of the ids that a trimmed
// head keeps; 1 without one.
std::vector<int> promising_exits(Span<const int> exits, const ReadBytes& bytes, double kept);

}  // namespace edgedec::engine
