// Translation between a draft model's tokens and the target's: none, or by text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/draft/choices.h"
#include "core/draft/tree_builder.h"

namespace edgedec::engine {

// Follows the target's committed tokens, and translates in both directions.
class Bridge : public ToTargetId {
 public:
  virtual ~Bridge() = default;

  // Starts a sequence whose first `kept` tokens are those of the one before.
  virtual Status begin(Span<const int32_t> tokens, size_t kept) = 0;
  virtual Status commit(Span<const int32_t> tokens) = 0;
  // Finds the committed sequence in the drafter's ids, which stay until the next call; none where it has no such ids.
  virtual Status read(Span<const int32_t>* ids) = 0;
  // Whether nothing is drafted after this token of the drafter.
  virtual bool ends(int32_t token) = 0;
  // Writes a draft in the drafter's ids as one in the target's.
  virtual Status in_target_ids(const TreeBuilder& sketch, TreeBuilder* draft) = 0;
  // How many of the target's tokens spell these drafted ones, behind the committed text.
  virtual Status length(Span<const int32_t> tokens, int64_t* count) = 0;
  virtual size_t nbytes() const = 0;
};

// Ids mean the same on both sides. `size`: ids that both models have; some have more, as padding.
class SameVocabulary final : public Bridge {
 public:
  explicit SameVocabulary(int64_t size) : size_(static_cast<int32_t>(size)) {}

  Status begin(Span<const int32_t> tokens, size_t) override {
    ids_.clear();
    readable_ = true;
    return commit(tokens);
  }
  Status commit(Span<const int32_t> tokens) override {
    ids_.insert(ids_.end(), tokens.begin(), tokens.end());
    for (int32_t token : tokens) readable_ = readable_ && token < size_;
    return {};
  }
  Status read(Span<const int32_t>* ids) override {
    *ids = readable_ ? Span<const int32_t>(ids_) : Span<const int32_t>();
    return {};
  }
  int32_t to_target_id(int32_t id) override { return id < size_ ? id : -1; }
  bool ends(int32_t token) override { return token >= size_; }
  Status in_target_ids(const TreeBuilder& sketch, TreeBuilder* draft) override {
    draft->clear();
    places_.clear();
    for (size_t node = 0; node < sketch.size(); ++node) {  // nothing follows an unknown one: it ends()
      const int parent = sketch.parents[node] == kRoot ? kRoot : places_[static_cast<size_t>(sketch.parents[node])];
      const bool known = sketch.tokens[node] < size_;
      places_.push_back(known ? draft->add(sketch.tokens[node], parent, sketch.reach[node]) : kNone);
    }
    return {};
  }
  Status length(Span<const int32_t> tokens, int64_t* count) override {
    *count = static_cast<int64_t>(tokens.size());
    return {};
  }
  size_t nbytes() const override { return ids_.capacity() * sizeof(int32_t); }

 private:
  int32_t size_;
  bool readable_ = true;
  std::vector<int32_t> ids_;
  std::vector<int> places_;
};

}  // namespace edgedec::engine
