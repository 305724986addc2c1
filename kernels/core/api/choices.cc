#include "core/draft/choices.h"

#include "core/api/marshal.h"

using namespace edgedec::engine;

namespace {

class Listed final : public ToTargetId {
 public:
  explicit Listed(const int32_t* theirs) : theirs_(theirs) {}
  int32_t to_target_id(int32_t id) override { return theirs_ ? theirs_[id] : id; }

 private:
  const int32_t* theirs_;
};

}  // namespace

int edgedec_core_choices(const edgedec_core_params* params, const edgedec_core_head* head, int64_t position,
                         const int32_t* tokens, int64_t count, int64_t said, const int32_t* behind, int64_t drafted,
                         const int32_t* theirs, int32_t* found, double* probs) {
  DrawParams drawing;
  if (const int failed = api::failed(api::read(*params, &drawing))) return failed;
  const DrawHistory history(drawing, api::span(tokens, count), api::size(said));
  Listed ids(theirs);
  Choices choices;
  std::vector<Choice> all;
  const Status status =
      choices.find(api::view(*head), 0, drawing, position, history.after(api::span(behind, drafted)), ids, &all);
  if (const int failed = api::failed(status)) return failed;
  for (const Choice& one : all) {
    *found++ = one.token;
    *probs++ = one.prob;
  }
  return static_cast<int>(all.size());
}
