#include "engine/model/session.h"

#include <stdlib.h>

#include <vector>

#include "common/isa.h"
#include "engine/base/files.h"
#include "core/base/format.h"
#include "core/memory/sizes.h"
#include "engine/model/graph_guard.h"
#include "engine/model/ports.h"
#include "engine/model/state_memory.h"
#include "engine/model/tap_outputs.h"
#include "experts/with_store.h"
#include "ort/ops.h"
#include "ort/with_regions.h"

namespace edgedec::engine {
namespace {

constexpr const char* kWeightsFolder = "session.model_external_initializers_file_folder_path";

Status check_isa() {
  if (selected_isa()) return {};
  const char* wanted = getenv("EDGEDEC_ISA");
  std::string rows;
  for (const char* const* row = isa_preference(); *row; ++row)
    if (cpu_has(*row)) rows += (rows.empty() ? "" : ", ") + std::string(*row);
  return {Code::kUsage, "EDGEDEC_ISA=" + quoted(wanted ? wanted : "") + " is not a kernel row that this library has and this CPU can run",
          "use one of: " + rows};
}

Status set_options(const Runtime& runtime, int threads, bool spin, OrtSessionOptions* options) {
  const ort::Api api = runtime.api();
  const auto entry = [&](const char* key, const char* value) {
    return runtime.check(api.AddSessionConfigEntry()(options, key, value));
  };
  EDGEDEC_TRY(runtime.check(api.SetSessionLogSeverityLevel()(options, ort::kFatal)));
  EDGEDEC_TRY(runtime.check(api.SetIntraOpNumThreads()(options, threads)));
  EDGEDEC_TRY(runtime.check(api.SetInterOpNumThreads()(options, 1)));
  // Spinning threads start the next op at once, but starve each other when cores are shared.
  EDGEDEC_TRY(entry("session.intra_op.allow_spinning", spin ? "1" : "0"));
  // After a pass they would go on for a while: in the way of another model, and a waste of battery.
  EDGEDEC_TRY(entry("session.force_spinning_stop", "1"));
  // A memory plan for every number of tokens seen would be kept for ever.
  EDGEDEC_TRY(runtime.check(api.DisableMemPattern()(options)));
  // The exporter fused the graph already; further passes only cost load time.
  constexpr int kDisableAll = 0;
  EDGEDEC_TRY(runtime.check(api.SetSessionGraphOptimizationLevel()(options, kDisableAll)));
  EDGEDEC_TRY(entry("session.disable_prepacking", "1"));
  return runtime.check(RegisterCustomOps(options, runtime.base()));
}

// Whether keys and values have so many layers, heads, and rows of the named size.
bool holds(const Ports::Port* port, const Keys& keys) {
  return port && port->dims.size() == 5 && port->dims[0] == keys.layers && port->dims[1] == 2 &&
         port->dims[2] == keys.kv_heads && port->last == kv_row_name(keys.head_dim);
}

// Whether rows of recurrent layers, or their states, have so many numbers.
bool holds(const Ports::Port* port, const States& kind, int64_t numbers) {
  return port && port->dims.size() == 3 && port->dims[0] == kind.layers && port->dims[2] == numbers;
}

// Whether all caches of a model are there; counts them.
bool has_caches(const Ports& in, const ModelSpec& spec, size_t* count) {
  const Keys rings = ring_keys(spec);
  bool right = holds(in.find("kv_cache"), whole_keys(spec)) && (!rings.window || holds(in.find("kv_window"), rings));
  *count = rings.window ? 2 : 1;
  for (const States& kind : spec.states) {
    right = right && holds(in.find(trail_input(kind).c_str()), kind, kind.row);
    right = right && (!kind.state || holds(in.find(state_input(kind).c_str()), kind, kind.state));
    *count += kind.state ? 2 : 1;
  }
  if (spec.states.empty()) return right;
  *count += 1;
  const Ports::Port* applied = in.find(kAppliedInput);
  return right && applied && applied->dims.size() == 1;
}

bool is_model(const Ports& in, const Ports& out, const Ports& constants, const ModelSpec& spec,
              Span<const std::string> more) {
  size_t caches = 0;
  if (!has_caches(in, spec, &caches)) return false;
  for (const std::string& name : more)
    if (!in.find(name.c_str())) return false;
  for (const char* name : {"tokens", "positions", "parents", "length", "rows", "want_logits"})
    if (!in.find(name)) return false;
  for (const char* name : {"ids", "logsumexp", "entropy"})
    if (!out.find(name)) return false;
  const std::vector<int64_t>& length = in.find("length")->dims;
  return in.all.size() == 6 + caches + more.size() &&
         has_columns(out.find("values"), spec.head_k) && has_columns(out.find("logits"), spec.vocab_size) &&
         !(length.size() == 1 && length[0] == 1) && constants.find("temperature") &&
         (whole_keys(spec).layers == 0 || constants.find("attention"));
}

}  // namespace

Status open_session(const Runtime& runtime, const std::string& bundle, const char* graph, const SessionSetting& setting,
                    SessionOwner* session) {
  EDGEDEC_TRY(check_isa());
  EDGEDEC_TRY(check_graph(bundle, graph));
  const ort::Api api = runtime.api();
  OrtSessionOptions* options = nullptr;
  EDGEDEC_TRY(runtime.check(api.CreateSessionOptions()(&options)));
  const OptionsOwner owner(options, {api});
  EDGEDEC_TRY(set_options(runtime, setting.threads, setting.spin, options));
  std::string model;
  EDGEDEC_TRY(read_file(path_in(bundle, graph), kMostGraphBytes, &model));
  if (!setting.taps.empty()) add_outputs(&model, setting.taps, setting.hidden);
  if (setting.store) model = experts::with_store(model, setting.store);
  const std::string regions = ort::with_regions(model, setting.threads);
  if (!regions.empty()) model = regions;
  EDGEDEC_TRY(runtime.check(api.AddSessionConfigEntry()(options, kWeightsFolder, bundle.c_str())));
  OrtSession* made = nullptr;
  EDGEDEC_TRY(runtime.check(
      api.CreateSessionFromArray()(runtime.env(), model.data(), model.size(), options, &made), true));
  *session = SessionOwner(made, {api});
  return {};
}

Status check_shapes(const Runtime& runtime, const OrtSession* session, const ModelSpec& spec, const char* graph,
                    Span<const std::string> more) {
  const ort::Api api = runtime.api();
  Ports in, out, constants;
  EDGEDEC_TRY(in.read_inputs(runtime, session));
  EDGEDEC_TRY(out.read_outputs(runtime, session));
  EDGEDEC_TRY(constants.read(runtime, session, api.SessionGetOverridableInitializerCount(),
                             api.SessionGetOverridableInitializerName(), nullptr));
  return is_model(in, out, constants, spec, more) ? Status() : other_model(graph);
}

Status other_model(const char* graph) {
  return {Code::kBadFile, std::string(graph) + " of the bundle is not the model that its manifest describes",
          "verify the bundle, or pull or export the model again"};
}

}  // namespace edgedec::engine
