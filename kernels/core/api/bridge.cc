#include "core/api/bridge.h"

#include <algorithm>
#include <unordered_map>

#include "core/api/marshal.h"
#include "core/draft/text_bridge.h"

using namespace edgedec::engine;

namespace {

// A tokenizer of the host's.
class HostCodec final : public Codec {
 public:
  explicit HostCodec(const edgedec_core_codec& calls) : calls_(calls) {}

  void append_piece(int64_t token, std::string* bytes) const override {
    const auto id = static_cast<int32_t>(token);
    auto known = pieces_.find(id);
    if (known == pieces_.end()) {
      edgedec_core_list found = {};
      if (calls_.piece(id, &found) != 0) return;  // the host raises what it failed with
      known = pieces_.emplace(id, std::string(static_cast<const char*>(found.data), api::size(found.size))).first;
      held_ += sizeof(*known) + known->second.capacity();
    }
    bytes->append(known->second);
  }

  Status encode_inside(std::string_view text, std::vector<int32_t>* ids) const override {
    edgedec_core_list found = {};
    if (calls_.encode(text.data(), static_cast<int64_t>(text.size()), &found) != 0)
      return {Code::kBackend, "the host's tokenizer failed"};
    const Span<const int32_t> all = api::span(static_cast<const int32_t*>(found.data), found.size);
    ids->insert(ids->end(), all.begin(), all.end());
    return {};
  }

  size_t nbytes() const { return held_; }

 private:
  const edgedec_core_codec calls_;
  mutable std::unordered_map<int32_t, std::string> pieces_;
  mutable size_t held_ = 0;
};

class HostMaps final : public VocabularyMaps {
 public:
  explicit HostMaps(const edgedec_core_texts& given)
      : calls_(given.to_target), to_target_(api::size(given.draft_size), kUnseen) {
    for (size_t at = 0; at < api::size(given.controls); ++at)
      to_draft_.emplace(given.controls_theirs[at], given.controls_mine[at]);
  }

  int32_t to_target(int32_t id) override {
    if (id < 0 || static_cast<size_t>(id) >= to_target_.size()) return -1;
    int32_t& found = to_target_[static_cast<size_t>(id)];
    if (found == kUnseen) found = calls_(id);
    return found;
  }
  int32_t to_draft(int32_t token) override {
    const auto found = to_draft_.find(token);
    return found == to_draft_.end() ? -1 : found->second;
  }
  size_t nbytes() const override {
    return to_target_.size() * sizeof(int32_t) + to_draft_.size() * 2 * sizeof(int64_t);
  }

 private:
  static constexpr int32_t kUnseen = -2;

  int32_t (*const calls_)(int32_t id);
  std::vector<int32_t> to_target_;
  std::unordered_map<int32_t, int32_t> to_draft_;
};

// A bridge by text with all that it refers to.
class HostTexts final : public Bridge {
 public:
  explicit HostTexts(const edgedec_core_texts& given)
      : target_(given.target), draft_(given.draft), maps_(given),
        bridge_(target_, draft_, maps_, std::vector<int32_t>(given.opening, given.opening + given.opening_count)) {}

  Status begin(Span<const int32_t> tokens, size_t kept) override { return bridge_.begin(tokens, kept); }
  Status commit(Span<const int32_t> tokens) override { return bridge_.commit(tokens); }
  Status read(Span<const int32_t>* ids) override { return bridge_.read(ids); }
  int32_t to_target_id(int32_t id) override { return bridge_.to_target_id(id); }
  bool ends(int32_t token) override { return bridge_.ends(token); }
  Status in_target_ids(const TreeBuilder& sketch, TreeBuilder* draft) override {
    return bridge_.in_target_ids(sketch, draft);
  }
  Status length(Span<const int32_t> tokens, int64_t* count) override { return bridge_.length(tokens, count); }
  size_t nbytes() const override { return bridge_.nbytes() + target_.nbytes() + draft_.nbytes(); }

 private:
  const HostCodec target_, draft_;
  HostMaps maps_;
  TextBridge bridge_;
};

}  // namespace

edgedec_core_bridge* edgedec_core_bridge_same_new(int64_t size) {
  return new edgedec_core_bridge{std::make_shared<SameVocabulary>(size), {}};
}
edgedec_core_bridge* edgedec_core_bridge_text_new(const edgedec_core_texts* given) {
  return new edgedec_core_bridge{std::make_shared<HostTexts>(*given), {}};
}
void edgedec_core_bridge_free(edgedec_core_bridge* it) { delete it; }

int edgedec_core_bridge_begin(edgedec_core_bridge* it, const int32_t* tokens, int64_t count, int64_t kept) {
  return api::failed(it->bridge->begin(api::span(tokens, count), api::size(kept)));
}
int edgedec_core_bridge_commit(edgedec_core_bridge* it, const int32_t* tokens, int64_t count) {
  return api::failed(it->bridge->commit(api::span(tokens, count)));
}
int64_t edgedec_core_bridge_read(edgedec_core_bridge* it, const int32_t** ids) {
  Span<const int32_t> found;
  if (const int failed = api::failed(it->bridge->read(&found))) return failed;
  *ids = found.data();
  return static_cast<int64_t>(found.size());
}
int64_t edgedec_core_bridge_bytes(const edgedec_core_bridge* it) { return static_cast<int64_t>(it->bridge->nbytes()); }

int edgedec_core_bridge_tree(edgedec_core_bridge* it, int64_t count, const int32_t* tokens, const int32_t* parents,
                             const double* reach, int64_t room, int32_t* tokens_out, int32_t* parents_out,
                             double* reach_out) {
  TreeBuilder sketch;
  TreeBuilder& draft = it->tree;
  for (int64_t at = 0; at < count; ++at) sketch.add(tokens[at], parents[at], reach[at]);
  if (const int failed = api::failed(it->bridge->in_target_ids(sketch, &draft))) return failed;
  const size_t nodes = std::min(draft.size(), api::size(room));
  std::copy_n(draft.tokens.begin(), nodes, tokens_out);
  std::copy_n(draft.parents.begin(), nodes, parents_out);
  std::copy_n(draft.reach.begin(), nodes, reach_out);
  return static_cast<int>(nodes);
}
void edgedec_core_bridge_to_target(edgedec_core_bridge* it, const int32_t* ids, int64_t count, int32_t* theirs) {
  it->bridge->to_target_ids(api::span(ids, count), theirs);
}
int edgedec_core_bridge_ends(edgedec_core_bridge* it, int32_t token) { return it->bridge->ends(token); }
int64_t edgedec_core_bridge_length(edgedec_core_bridge* it, const int32_t* tokens, int64_t count) {
  int64_t found = 0;
  if (const int failed = api::failed(it->bridge->length(api::span(tokens, count), &found))) return failed;
  return found;
}
