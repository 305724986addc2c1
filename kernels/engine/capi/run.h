// The assembly for one conversation: a bundle and options become a model, a KV cache, drafters and an engine.
// edgedec/assemble/prepare.py and runner.py.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "core/base/status.h"
#include "engine/bundle/manifest.h"
#include "core/decode/engine.h"
#include "engine/decode/pass_costs.h"
#include "engine/drafters/carried.h"
#include "engine/drafters/registry.h"
#include "engine/drafters/small_model.h"
#include "engine/memory/budget.h"
#include "engine/model/onnx_model.h"
#include "engine/text/tokenizer.h"

namespace edgedec::engine {

// Everything a caller chooses about how a model runs: edgedec/assemble/config.py.
struct RunConfig {
  std::string folder;
  int threads = 0;      // 0: one per physical core
  int64_t context = 0;  // 0: the model's limit, at most 4096
  KvType kv = KvType::kFp16;
  int64_t memory = 0;  // 0: no limit
  std::string draft = "auto";
  int draft_tokens = 15;
  bool verify = false;
  std::string runtime_path;
  const OrtApiBase* runtime_api = nullptr;
  std::string cost_folder;    // empty: costs are not kept
  std::string tables_folder;  // empty: those that the bundle carries
};

// A model that is loaded and planned for. It is not moved once it is opened: its parts refer to each other.
class Run {
 public:
  explicit Run(Notice* notice) : notice_(notice) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Loads the model, and plans its memory.
  Status prepare(const RunConfig& config);
  // Allocates the KV cache, times passes where costs are not known, and makes drafters and engine. After prepare().
  Status start();
  // Plans for replies that are drawn so, perhaps in a form; a line says what that costs.
  Status make_room_for(const DrawParams& params, bool formed);
  Status measure_again();

  const Manifest& manifest() const { return manifest_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const RunConfig& config() const { return config_; }
  Budget& budget() { return *budget_; }
  Engine& engine() { return *engine_; }
  Forward& forward() { return *forward_; }
  const Speculation* speculation() const { return speculation_.get(); }
  int threads() const { return model_->threads(); }
  double load_s() const { return load_s_; }
  int64_t weight_bytes() const { return model_->weight_bytes(); }
  const ExpertStore* experts() const { return model_->experts(); }
  const std::string& folder() const { return config_.folder; }

 private:
  Status load();
  Status plan();
  // In run_drafters.cc.
  bool has(DrafterKind kind) const;
  int64_t beside() const;
  Status open_drafters();
  bool unnamed() const;
  bool spares(const MemoryFacts& facts, const MemoryWish& wish);
  Status open_carried();
  Status open_small(const DrafterSpec& spec);
  void close(DrafterKind kind);
  Status make_drafters(Drafters* drafters);
  Status make_tables(Drafters* drafters);
  Status make_exits(const DrafterSpec& spec, Drafters* drafters);
  void restore_tables(Drafters* drafters);
  Status begin_engine();
  void tell(const std::string& line) {
    if (notice_) notice_->tell(line);
  }

  RunConfig config_;
  Notice* notice_;
  SystemClock clock_;
  Surroundings surroundings_;
  Manifest manifest_;
  std::vector<DrafterSpec> drafters_;
  Runtime runtime_;
  std::unique_ptr<OnnxModel> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Budget> budget_;
  // A drafter that belongs to the model, with its part of the plan.
  struct Carried {
    DrafterKind kind;
    std::unique_ptr<CarriedDrafter> drafter;
    std::unique_ptr<Ledger> ledger;
  };
  std::vector<Carried> carried_;
  std::unique_ptr<SmallModel> small_;
  std::shared_ptr<TrimmedHead> trimmed_;
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<CostFile> cost_file_;
  PassCosts costs_;
  std::unique_ptr<Speculation> speculation_;
  std::unique_ptr<Engine> engine_;
  Lease tables_;
  Lease kept_;  // of the ids that exits' heads are trimmed to
  double load_s_ = 0.0;
};

}  // namespace edgedec::engine
