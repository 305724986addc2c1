// Functions that tests of decode/ call: the engine over a model and a clock that the test plays.
#include <memory>
#include <string>

#include "engine/capi/convert.h"
#include "engine/capi/loops.h"
#include "core/decode/engine.h"
#include "engine/decode/pass_costs.h"
#include "engine/decode/table_drafters.h"
#include "core/draft/exit_drafter.h"
#include "core/draft/model_drafter.h"
#include "engine/probes/played.h"
#include "engine/probes/report.h"

using namespace edgedec::engine;

extern "C" {

struct ProbeListener {
  int (*progress)(int64_t done, int64_t total);
  int (*step)(int32_t token, int64_t position, int finish, int source);
};

}  // extern "C"

namespace {

template <class T>
void write_list(const T& values, JsonWriter* out) {
  out->begin_list();
  for (const auto& value : values) out->whole(value);
  out->end_list();
}

// Notes every pass as JSON.
class Recorder final : public PassObserver {
 public:
  Recorder() { out.begin_list(); }
  void passed(const PassRecord& record) override {
    out.begin_list().whole(record.start).whole(record.fed).whole(record.committed).real(record.seconds);
    write_list(record.tree ? record.tree->tokens : std::vector<int32_t>(), &out);
    write_list(record.tree ? record.tree->parents : std::vector<int>(), &out);
    write_list(record.tree ? record.tree->sources : std::vector<int>(), &out);
    write_list(record.path, &out);
    out.end_list();
  }
  JsonWriter out;
};

class PlayedListener final : public ReplyListener {
 public:
  explicit PlayedListener(const ProbeListener& calls) : calls_(calls) {}
  bool progress(int64_t done, int64_t total) override { return calls_.progress(done, total); }
  bool step(const Step& step) override {
    return calls_.step(step.token, step.position, static_cast<int>(step.finish), step.source);
  }

 private:
  ProbeListener calls_;
};

struct OpenEngine {
  explicit OpenEngine(const ProbeForward& calls) : forward(calls), clock(calls.clock) {}
  PlayedForward forward;
  std::unique_ptr<PlayedForward> draft;
  PlayedClock clock;
  Recorder recorder;
  PassCosts costs;
  std::unique_ptr<Speculation> speculation;
  std::unique_ptr<Engine> engine;
};

std::unique_ptr<Drafter> model_drafter(OpenEngine* engine) {
  const int64_t size = std::min(engine->forward.spec().vocab_size, engine->draft->spec().vocab_size);
  return std::make_unique<ModelDrafter>("small", *engine->draft, std::make_unique<SameVocabulary>(size));
}

// "exit-2", and "trim-2" with a head trimmed to the even ids.
std::unique_ptr<Drafter> exit_drafter(std::string_view name, OpenEngine* engine) {
  std::shared_ptr<TrimmedHead> trimmed;
  if (name[0] == 't') {
    std::vector<int64_t> ids;
    for (int64_t id = 0; id < engine->forward.spec().vocab_size; id += 2) ids.push_back(id);
    trimmed = std::make_shared<TrimmedHead>(std::make_shared<KeptIds>(std::move(ids)), 0.5, 0.5);
  }
  ExitSetting setting;
  setting.layers.exit = name.back() - '0';
  setting.last = 4;
  setting.ends = {7};
  return std::make_unique<ExitDrafter>(engine->forward, std::move(setting), std::move(trimmed));
}

Drafters drafters_of(std::string_view names, OpenEngine* engine) {
  Drafters drafters;
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    const std::string_view name = names.substr(at, end - at);
    std::unique_ptr<Drafter> made;
    if (name.substr(0, 5) == "exit-" || name.substr(0, 5) == "trim-") drafters.push_back(exit_drafter(name, engine));
    else if (name == "small") drafters.push_back(model_drafter(engine));
    else if (make_table_drafter(name, useful_bytes(name), &made).ok()) drafters.push_back(std::move(made));
    at = end + 1;
  }
  return drafters;
}

void write_points(const Points& points, JsonWriter* out) {
  out->begin_list();
  for (const auto& [tokens, seconds] : points) out->begin_list().whole(tokens).real(seconds).end_list();
  out->end_list();
}

}  // namespace

EDGEDEC_EXPORT int edgedec_probe_loops(const int32_t* tokens, size_t count, const char* tail, size_t size) {
  return loops({tokens, count}, {tail, size});
}

EDGEDEC_EXPORT void edgedec_probe_head(HeadRows* head, size_t rows, size_t k, size_t vocabulary, const float* values,
                                       const int32_t* ids, const float* logsumexp, const float* entropy, const float* logits,
                                       double temperature) {
  head->rows = rows;
  head->k = k;
  head->vocabulary = vocabulary;
  head->values.assign(values, values + rows * k);
  head->ids.assign(ids, ids + rows * k);
  head->logsumexp.assign(logsumexp, logsumexp + rows);
  head->entropy.assign(entropy, entropy + rows);
  head->logits.assign(logits, logits ? logits + rows * vocabulary : logits);
  head->temperature = temperature;
}

// Makes an engine that drafts with drafters by comma; `draft` is the model of the one called "small". `tokens` and `seconds`: pass costs, or none for drafts in any case.
EDGEDEC_EXPORT OpenEngine* edgedec_probe_engine(const ProbeForward* calls, const ProbeForward* draft, const char* names,
                                                int limit, const int* tokens, const double* seconds, size_t points, int old) {
  auto made = std::make_unique<OpenEngine>(*calls);
  if (draft) made->draft = std::make_unique<PlayedForward>(*draft);
  Points costs;
  for (size_t i = 0; i < points; ++i) costs.emplace_back(tokens[i], seconds[i]);
  if (points && !CostCurve::make(costs, old, &made->costs.curve).ok()) return nullptr;
  Speculation::Setting setting;
  setting.costs = points ? &made->costs.curve : nullptr;
  setting.limit = limit;
  setting.clock = &made->clock;
  if (*names) made->speculation = std::make_unique<Speculation>(drafters_of(names, made.get()), setting);
  made->engine = std::make_unique<Engine>(
      made->forward, Engine::Setting{made->speculation.get(), &made->recorder, &made->clock, nullptr});
  return made.release();
}

EDGEDEC_EXPORT void edgedec_probe_engine_close(OpenEngine* engine) { delete engine; }

// Runs a reply; returns its Code.
EDGEDEC_EXPORT int edgedec_probe_engine_generate(OpenEngine* it, const int32_t* prompt, size_t count,
                                                 const edgedec_sampling* sampling, int64_t max_tokens, const int32_t* stops,
                                                 size_t stop_count, const ProbeListener* listener) {
  GenerateRequest request;
  Status status = params_of(*sampling, &request.params);
  request.prompt = {prompt, count};
  request.max_tokens = max_tokens;
  request.stop_ids.assign(stops, stops + stop_count);
  PlayedListener played(*listener);
  if (status.ok()) status = it->engine->generate(request, played);
  return static_cast<int>(status.code());
}

EDGEDEC_EXPORT int edgedec_probe_engine_reset(OpenEngine* it) { return static_cast<int>(it->engine->reset().code()); }

// The passes since the last call, the counts of drafts, and the pass costs now.
EDGEDEC_EXPORT char* edgedec_probe_engine_record(OpenEngine* it, size_t* size) {
  JsonWriter out;
  out.begin_object().key("passes").raw(it->recorder.out.end_list().str());
  it->recorder.out = JsonWriter();
  it->recorder.out.begin_list();
  write_list(it->engine->committed(), &out.key("committed"));
  if (it->speculation) {
    const Tally& tally = it->speculation->tally();
    out.key("tally").begin_list().whole(tally.rounds).whole(tally.committed).whole(tally.drafted).whole(tally.accepted);
    out.real(tally.draft_s).real(tally.verify_s).real(tally.forecast.passes_s).real(tally.forecast.plain_s).end_list();
    out.key("efforts").begin_list();
    for (const Effort& one : tally.by_drafter)
      out.begin_list().whole(one.queries).whole(one.proposed).real(one.draft_s).real(one.learn_s).end_list();
    out.end_list();
    if (it->speculation->plain_s() > 0.0) write_points(it->costs.curve.measured(), &out.key("costs"));
  }
  return copied(out.end_object().str(), size);
}

// Measures pass costs over the played model, and keeps them in `folder` where there is one.
EDGEDEC_EXPORT char* edgedec_probe_know_costs(const ProbeForward* calls, const char* folder, double wall, double load, int again,
                                              size_t* size) {
  struct Fixed final : Surroundings {
    double at, busy;
    double wall_s() override { return at; }
    std::optional<double> load() override { return busy; }
  } fixed;
  fixed.at = wall;
  fixed.busy = load;
  struct Lines final : Notice {
    JsonWriter out;
    void tell(const std::string& line) override { out.text(line); }
  } lines;
  lines.out.begin_list();
  PlayedForward forward(*calls);
  PlayedClock clock(calls->clock);
  const CostFile file(folder ? folder : "", {"0.1.0", "weights", "isa", "2", "cpu"}, &fixed);
  PassCosts costs;
  const Status status = costs.know(forward, folder ? &file : nullptr, clock, &lines, again);
  if (!status.ok()) return reported(status, size);
  JsonWriter out;
  write_points(costs.curve.measured(), &out.begin_object().key("costs"));
  out.key("old").flag(costs.curve.level_is_old()).key("path").text(file.path());
  out.key("lines").raw(lines.out.end_list().str()).end_object();
  return copied(out.str(), size);
}

// Reads the text of a file of costs, written as the file with corrections; null where it is damaged.
EDGEDEC_EXPORT char* edgedec_probe_corrected(const char* text, size_t text_size, const int* tokens, const double* seconds,
                                             size_t points, double wall, size_t* size) {
  const std::optional<KeptCosts> found = read_costs({text, text_size});
  if (!found) return nullptr;
  Points now;
  for (size_t i = 0; i < points; ++i) now.emplace_back(tokens[i], seconds[i]);
  const KeptCosts costs = points ? found->corrected(now, {wall, {}, now[0].second}) : *found;
  JsonWriter out;
  write_points(costs.seconds, &out.begin_object().key("seconds"));
  out.key("doubted").flag(costs.doubted).key("stands").flag(costs.stands(wall));
  out.key("measured").real(costs.measured.at).key("kept").real(costs.kept.at).end_object();
  return copied(out.str(), size);
}

// The bytes of a packed table; null for a damaged one.
EDGEDEC_EXPORT char* edgedec_probe_unpack(const char* packed, size_t packed_size, size_t* size) {
  std::vector<uint8_t> saved;
  const auto* bytes = reinterpret_cast<const uint8_t*>(packed);
  if (!read_table({bytes, packed_size}, "table", &saved).ok()) return nullptr;
  return copied(std::string(saved.begin(), saved.end()), size);
}
