// Drafting with the target itself: its first layers, then its own norm and head, perhaps a trimmed one.
//
// A draft step is a peek after layer E. The keys and values that it writes, and the hidden states after E, are those of the
// pass that verifies, which goes on from there: nothing is computed twice (LayerSkip, Elhoushi et al. 2024). With all layers
// and a trimmed head, only the whole head is left to the pass: that drafts well without any training, and pays where the head
// is a large part of a pass.
//
// A draft is a chain. It ends where an early head is unsure (AdaEDL, Agrawal et al. 2024), and where its path is less
// probable than a further step is worth. A head's probabilities understate how often an exit is right, or overstate it; so
// each exit measures that and states measured ones (the confidence of DEL, Zarch et al. 2025).
//
// A draft may also leave out a span of layers and go on above it (SWIFT, Xia et al. 2025). The layers above see other rows
// than a pass does, so their keys and values are the draft's alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/calibration.h"
#include "core/decode/drafter.h"
#include "core/draft/choices.h"
#include "core/draft/doubts.h"
#include "core/draft/trimmed_head.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

// Layers of a target that draft, and what a step of them costs.
struct ExitSetting {
  LayerSubset layers;
  int last = 0;               // layers of the model; the exit behind them is the target itself
  std::vector<int32_t> ends;  // tokens that nothing follows
  // Bytes that a step reads: of the layers with their part of the KV cache, and of the whole head.
  double layer_bytes = 0.0, head_bytes = 0.0;
  int64_t table_bytes = 0;  // of a table of embeddings that the head does not share
  int64_t vocabulary = 1;
  Doubts doubts;
};

class ExitDrafter final : public Drafter {
 public:
  // Drafts with layers of `forward`, the target's own, which outlives it. `trimmed`: ids that the head computes while the
  // text consists of them; null: all.
  ExitDrafter(DraftForward& forward, ExitSetting setting, std::shared_ptr<TrimmedHead> trimmed = nullptr);

  const char* name() const override { return name_.c_str(); }
  bool peeks() const override { return true; }
  int peeked() const override { return peeked_; }
  void sampled(const DrawParams& params) override { params_ = params; }
  Status begin(Span<const int32_t> tokens, size_t kept) override;
  Status commit(Span<const int32_t> tokens) override;
  // Drafts nothing where the cache lacks more than the last committed token.
  Status propose(int limit, double floor, Source self, DraftTree* tree) override;
  // About the bytes of the layers and of the kept rows of the head, once per token drafted. Passes are one for each token
  // drafted, and those that ended a draft.
  DraftWork work() const override { return work_.counts(); }
  size_t nbytes() const override;

 private:
  Status extend_chain(int limit, double floor);
  Status step(int32_t token, const Rows& rows);
  void score(Span<const int32_t> committed);

  const ExitSetting setting_;
  const std::string name_;
  DraftForward& forward_;
  std::shared_ptr<TrimmedHead> trimmed_;
  const float unsure_nats_;
  WorkSum work_;
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

// The name of the drafter that has them, such as "exit-12" or "skip-8-16".
std::string layers_name(LayerSubset layers);
// The layers of such a name; no exit for any other text.
LayerSubset named_layers(std::string_view name);
inline std::string exit_name(int exit) { return layers_name({exit, 0}); }

// Numbers of weights of a model, and its bytes.
struct ReadFacts {
  int64_t layers = 1;
  double layer = 0.0, head = 0.0;  // weights of one layer that a token takes, and of the head
  double weights = 0.0;            // bytes that a pass reads of all matrices
  double kv_cache = 0.0;           // bytes of the cache
};

// The bytes that a pass over one token reads: of one layer with its part of the KV cache, half full, and of the head.
// Weights are split by their numbers of elements, as if all took as many bytes.
struct ReadBytes {
  double layer = 0.0, head = 0.0;
  static ReadBytes of(const ReadFacts& facts);
};

// The speed over plain decoding that drafting with `layers` of a model's `last` promises: they are supposed to be right as
// often as they are of all layers, and nearly all that were measured were right less often. `whole`: the last exit, with a
// trimmed head. `step`: time of a draft step, in passes over one token.
double promised_speed(int layers, int last, bool whole, double step);
// The least share of a pass that a trimmed head has to save, so that the last exit drafts where nobody named it.
double least_saved();

// The exits that can make decoding faster, the one that promises most first. `kept`: the share of the ids that a trimmed
// head keeps; 1 without one.
std::vector<int> promising_exits(Span<const int> exits, const ReadBytes& bytes, double kept);

}  // namespace edgedec::engine
