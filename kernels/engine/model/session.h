// An ONNX Runtime session over a bundle, with EdgeDec's kernels: edgedec/backends/onnx/session.py.
#pragma once

#include <string>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "engine/model/runtime.h"

namespace edgedec::engine {

// How a graph is loaded.
struct SessionSetting {
  int threads = 1;
  bool spin = true;            // threads wait actively for a moment between ops
  Span<const int> taps = {};   // layers whose outputs, of `hidden` numbers a token, the graph hands out too
  int64_t hidden = 0;
  int64_t store = 0;           // the number of the store that experts come from; 0: they are mapped
};

// Loads `graph` of `bundle` with its weights mapped, not copied. kBadFile: graph or weights are broken. kBackend: the runtime
// refuses. kUsage: EDGEDEC_ISA names a row that cannot run here.
Status open_session(const Runtime& runtime, const std::string& bundle, const char* graph, const SessionSetting& setting,
                    SessionOwner* session);

// kBadFile unless the graph has the inputs and outputs of a pass, as the manifest states. `graph`: the name of its file;
// `more`: inputs that it has beside those of model.onnx.
Status check_shapes(const Runtime& runtime, const OrtSession* session, const ModelSpec& spec, const char* graph,
                    Span<const std::string> more = {});

// The error of a graph that is not the one of the manifest's model.
Status other_model(const char* graph);

}  // namespace edgedec::engine
