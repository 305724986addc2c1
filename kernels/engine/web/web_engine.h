// The engine as a state machine: it is asked for the next pass, and is given what came of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "core/base/json.h"
#include "engine/base/lock.h"
#include "engine/bundle/manifest.h"
#include "engine/capi/turns.h"
#include "core/decode/cost_series.h"
#include "core/decode/engine.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "engine/web/awaited_forward.h"
#include "engine/web/cpu_model.h"
#include "engine/web/request.h"
#include "engine/web/web_drafters.h"

namespace edgedec::engine {

// Each call that answers writes JSON to `out`.
class WebEngine final : private CostKeeper, private Notice {
 public:
  Status open(std::string_view options, std::string* out);
  Status measure();
  Status begin(std::string_view request, std::string* out);
  // Whether a pass is wanted; if not, `out` has the figures of what is over.
  Status next(bool* wanted, std::string* out);
  const edgedec_web_pass* pass() const { return &forward_->pass(); }
  Status give(double seconds, std::string* out);
  void stop() { stop_.set(); }
  void lost();
  Status forget();
  std::string stats() const;
  Status encode(std::string_view text, std::string* out) const;

  // Has layers of the model draft by peeks elsewhere: edgedec_web_peeks.
  Status use_peeks(std::string_view exits, std::function<int32_t()> peek, std::string* out);
  Status use_cpu(std::string* out);
  Status compute();
  Status rotary(const float* inv_freq, size_t half, float* table) const;
  Status steps(size_t behind, size_t taps, uint32_t* steps) const;
  Status head(uint32_t row, const float* sums, size_t blocks, Span<const int32_t> ids, const float* coarse, const float* fine,
              float softcap);
  // The announced pass, or a peek; kUsage where there is none.
  Status announced() const;

 private:
  enum class Doing { kNothing, kReply, kMeasuring };

  Status load();
  Status open_template();
  Status begin_engine();
  std::optional<CpuTarget> cpu_target();
  Status open_cpu(KvType kv);
  int64_t planned() const;
  Status next_of_reply(const WantedPass** pass, std::string* out);
  Status next_of_measuring(const WantedPass** pass, std::string* out);
  Status end_measuring(std::string* out);
  std::string facts() const;
  std::string figures();
  void hear(const edgedec_token& token);
  std::string heard();
  void keep(const Points& seconds) override { drifted_ = seconds; }
  void tell(const std::string& line) override { told_.push_back(line); }

  WebOptions options_;
  Manifest manifest_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string program_, source_;  // of the chat template
  std::unique_ptr<ChatTemplate> template_;
  std::unique_ptr<AwaitedForward> forward_;
  std::unique_ptr<CpuCaches> caches_;
  std::unique_ptr<CpuModel> cpu_;
  WebDrafters drafters_;
  SystemClock clock_;
  Flag stop_;
  CostCurve costs_;
  bool costs_known_ = false;
  Points drifted_;  // costs that replies corrected
  std::vector<std::string> told_;  // lines of drafters since the last figures
  std::unique_ptr<Speculation> speculation_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Turns> turns_;

  Doing doing_ = Doing::kNothing;
  bool announced_ = false;
  JsonWriter pieces_{false};
  bool any_piece_ = false;

  // The measuring under way.
  std::unique_ptr<CostSeries> series_;
  std::vector<int32_t> zeros_;
  WantedPass timed_;
  HeadRows timed_rows_;
  double began_ = 0.0;
};

}  // namespace edgedec::engine
