// Functions that tests of decode/ call: pass costs, their files, and prepared tables.
#include <optional>
#include <string>

#include "engine/capi/loops.h"
#include "engine/decode/pass_costs.h"
#include "engine/decode/table_drafters.h"
#include "engine/probes/played.h"
#include "engine/probes/report.h"

using namespace edgedec::engine;

namespace {

void write_points(const Points& points, JsonWriter* out) {
  out->begin_list();
  for (const auto& [tokens, seconds] : points) out->begin_list().whole(tokens).real(seconds).end_list();
  out->end_list();
}

}  // namespace

EDGEDEC_EXPORT int edgedec_probe_loops(const int32_t* tokens, size_t count, const char* tail, size_t size) {
  return loops({tokens, count}, {tail, size});
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
