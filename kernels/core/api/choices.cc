#include "core/draft/choices.h"

#include "core/api/marshal.h"

using namespace edgedec::engine;

namespace {

class Called final : public ToTargetId {
 public:
  explicit Called(edgedec_core_to_target of) : of_(of) {}
  int32_t to_target_id(int32_t id) override {
    int32_t theirs = -1;
    of_(&id, 1, &theirs);
    return theirs;
  }
  void to_target_ids(Span<const int32_t> ids, int32_t* theirs) override {
    of_(ids.data(), static_cast<int64_t>(ids.size()), theirs);
  }

 private:
  const edgedec_core_to_target of_;
};

}  // namespace

struct edgedec_core_choices {
  DrawParams params;
  DrawHistory history;
  Choices choices;
  std::vector<Choice> found;
};

edgedec_core_choices* edgedec_core_choices_new(const edgedec_core_params* params, const int32_t* tokens, int64_t count,
                                               int64_t said) {
  DrawParams drawing;
  if (api::failed(api::read(*params, &drawing))) return nullptr;
  DrawHistory history(drawing, api::span(tokens, count), api::size(said));
  return new edgedec_core_choices{std::move(drawing), std::move(history), {}, {}};
}

void edgedec_core_choices_free(edgedec_core_choices* choices) { delete choices; }

void edgedec_core_choices_commit(edgedec_core_choices* choices, const int32_t* tokens, int64_t count) {
  for (const int32_t token : api::span(tokens, count)) choices->history.add(token);
}

int edgedec_core_choices_find(edgedec_core_choices* choices, const edgedec_core_head* head, int64_t row,
                              const int32_t* behind, int64_t drafted, int64_t position, edgedec_core_to_target to_target,
                              int32_t* tokens, double* probs) {
  const HeadView rows = api::view(*head);
  const size_t at = api::size(row);
  if (at >= rows.rows) return api::failed({Code::kUsage, "the pass has no such row"});
  const DrawHistory history = choices->history.after(api::span(behind, drafted));
  Itself itself;
  Called called(to_target);
  ToTargetId& ids = to_target ? static_cast<ToTargetId&>(called) : itself;
  std::vector<Choice>& found = choices->found;
  const Status status = choices->choices.find(rows, at, choices->params, position, history, ids, &found);
  if (!status.ok()) return api::failed(status);
  for (size_t one = 0; one < found.size(); ++one) {
    tokens[one] = found[one].token;
    probs[one] = found[one].prob;
  }
  return static_cast<int>(found.size());
}

int edgedec_core_most_choices() { return static_cast<int>(Choices::kFew); }
