// An open model that replies, one call at a time: edgedec/api.py and session/chat.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/lock.h"
#include "core/base/status.h"
#include "engine/capi/run.h"
#include "engine/capi/session.h"
#include "engine/capi/stats.h"
#include "engine/capi/turns.h"
#include "engine/edgedec.h"

namespace edgedec::engine {

class Model final : private Notice {
 public:
  Model(void (*notice)(void*, const char*), void* user) : notice_(notice), user_(user), run_(this) {}

  Status prepare(const RunConfig& config);
  Status start();
  std::string plan() { return plan_json(run_); }
  std::string stats() { return stats_json(run_, turns_->figures()); }
  const Preset& preset() const { return run_.manifest().preset; }

  Status encode(std::string_view text, bool specials, std::vector<int32_t>* ids) const;
  std::string decode(Span<const int32_t> tokens) const;

  Status reply(Span<const edgedec_message> messages, const edgedec_request* request, edgedec_result* result);
  // Continues the latest reply to a conversation, which was cut.
  Status more(const edgedec_request* request, edgedec_result* result);
  Status complete(std::string_view text, const edgedec_request* request, edgedec_result* result);
  Status generate(Span<const int32_t> prompt, const edgedec_request* request, edgedec_result* result);
  // Safe from any thread.
  void stop() { stop_.set(); }

  Status measure_again();
  Status save(const std::string& path);
  Status restore(const std::string& path);

 private:
  void tell(const std::string& line) override {
    if (notice_) notice_(user_, line.c_str());
  }
  Status open_template();
  Status requested(const edgedec_request* asked, const edgedec_result* result, ReplyRequest* request);
  // Computes a reply to `prompt`: whatever Turns::begin takes.
  template <class Prompt>
  Status compute(Prompt prompt, ReplyRequest request, edgedec_result* result);
  // Computes the reply that has begun.
  Status finish(edgedec_result* result);

  void (*notice_)(void*, const char*);
  void* user_;
  Run run_;
  SystemClock clock_;
  Flag stop_;
  std::string program_, source_;  // of the chat template
  std::unique_ptr<ChatTemplate> template_;
  Status no_template_;  // why there is none, where there should be one
  std::unique_ptr<Turns> turns_;
};

}  // namespace edgedec::engine
