// The interface of every drafter: edgedec/draft/drafter.py.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/params.h"
#include "core/rows.h"
#include "core/tree.h"

namespace edgedec::engine {

// Work of a drafter's model: bytes of weights and KV cache that its passes read, these passes, and the bytes of embedding
// tables of which they looked up rows.
struct DraftWork {
  int64_t bytes_read = 0, passes = 0, table_bytes = 0;
};

// The same in the making: passes may read parts of bytes.
class WorkSum {
 public:
  void add(double bytes_read, double table_bytes) {
    bytes_read_ += bytes_read;
    table_bytes_ += table_bytes;
    ++passes_;
  }
  DraftWork counts() const { return {static_cast<int64_t>(bytes_read_), passes_, static_cast<int64_t>(table_bytes_)}; }

 private:
  double bytes_read_ = 0.0, table_bytes_ = 0.0;
  int64_t passes_ = 0;
};

// Guesses the target's next tokens. A wrong guess costs time and never changes a token. A drafter that fails is dropped.
class Drafter {
 public:
  virtual ~Drafter() = default;

  virtual const char* name() const = 0;
  // Whether it knew texts before its first query: its first drafts are then trusted more.
  bool pretrained = false;

  // Whether its queries compute parts of the pass that follows.
  virtual bool peeks() const { return false; }
  // Tokens of that pass which the latest query computed in part: the last committed one, and those along the draft.
  virtual int peeked() const { return 0; }
  // Layers of the target whose outputs it needs: read() brings them. None: it needs none.
  virtual Span<const int> taps() const { return {}; }
  // Takes the outputs of these layers, side by side, for the committed tokens from position `start` on. Told behind each
  // pass. Positions can come again after begin(), with the same numbers, and can be missing.
  virtual Status read(int64_t, Span<const float>) { return {}; }

  // Whether it needs the head rows of every round, also of those in which no draft can pay.
  virtual bool wants_every_round() const { return false; }
  // What its model has done so far; nothing without a model.
  virtual DraftWork work() const { return {}; }
  // Whether the latest call failed because the round has to begin again: then the drafter stays.
  virtual bool interrupted() const { return false; }

  // Hears how the target draws the reply to come, before its begin().
  virtual void sampled(const DrawParams&) {}
  // Starts a new sequence of committed tokens; its first `kept` are the first of the one before.
  virtual Status begin(Span<const int32_t> tokens, size_t kept) = 0;
  // Appends tokens to the committed sequence.
  virtual Status commit(Span<const int32_t> tokens) = 0;
  // Writes at most `limit` tokens to follow into the empty `tree`. A token whose path is less probable than `floor` need
  // not be drafted.
  virtual Status propose(int limit, double floor, Source self, DraftTree* tree) = 0;
  // Hears the target's answers of a pass, before any of it is committed: row 0 answers the last committed token, and row
  // 1 + i node i of the tree, rejected ones included.
  virtual Status observe(const DraftTree&, const HeadRows&) { return {}; }
  // Writes at most `limit` tokens that may follow `tokens`, all that was committed, whatever was drafted before.
  virtual Status ahead(Span<const int32_t>, int, std::vector<int32_t>*) {
    return {Code::kUnsupported, "this drafter does not look ahead"};
  }
  // Bytes held beside a KV cache and weights.
  virtual size_t nbytes() const = 0;
  // Takes over prepared knowledge, before the first begin. Fails, and stays as it was, for that of another drafter or
  // another vocabulary size.
  virtual Status restore(Span<const uint8_t>, int64_t) { return {Code::kUnsupported, "nothing is prepared for it"}; }
};

// Outputs of the layers `taps`, side by side, of `tokens` committed tokens from position `start` on.
struct HiddenStates {
  int64_t start;
  size_t tokens;
  Span<const int> taps;
  Span<const float> rows;
};

// Takes hidden states of committed tokens.
class HiddenReader {
 public:
  // Layers, ascending, whose outputs are wanted.
  virtual Span<const int> taps() const = 0;
  virtual void read(const HiddenStates& states) = 0;

 protected:
  ~HiddenReader() = default;
};

using Drafters = std::vector<std::unique_ptr<Drafter>>;

}  // namespace edgedec::engine
