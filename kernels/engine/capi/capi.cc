// The C API over a run: it checks what is handed in, and lets one call at a time in. edgedec/api.py.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "core/base/format.h"
#include "engine/base/lock.h"
#include "engine/capi/convert.h"
#include "engine/capi/model.h"
#include "engine/capi/run.h"
#include "engine/capi/session.h"
#include "engine/capi/stats.h"
#include "engine/edgedec.h"

using namespace edgedec::engine;

struct edgedec_engine {
  explicit edgedec_engine(void (*notice)(void*, const char*), void* user) : model(notice, user) {}
  Model model;
  Flag busy;
};

namespace {

Status missing(const char* what) { return {Code::kUsage, std::string("there is no ") + what, "hand one in"}; }

// Runs one call of an engine, unless another one is running.
template <class Act>
edgedec_code guarded(edgedec_engine* engine, edgedec_status* status, Act act) {
  if (!engine) return told(missing("engine"), status);
  if (!engine->busy.claim())
    return told({Code::kUsage, "another call of this engine is running", "wait for its end, or stop it first"}, status);
  const edgedec_code code = told(act(engine->model), status);
  engine->busy.clear();
  return code;
}

Status config_of(const char* folder, const edgedec_options* given, RunConfig* config) {
  edgedec_options options;
  edgedec_options_init(&options);
  if (given && given->size < sizeof options)
    return {Code::kUsage, "the options have no size", "call edgedec_options_init first"};
  if (given) options = *given;
  if (!folder || !*folder) return missing("folder of a bundle");
  if (options.kv != EDGEDEC_KV_FP16 && options.kv != EDGEDEC_KV_INT8)
    return {Code::kUsage, "there is no KV cache of kind " + decimal(options.kv), "there are fp16 and int8"};
  if (options.threads > 4096 || options.memory > INT64_MAX)
    return {Code::kUsage, "threads or memory are out of range", "use less"};
  const auto text = [](const char* value) { return value ? std::string(value) : std::string(); };
  config->folder = folder;
  config->threads = static_cast<int>(options.threads);
  config->context = options.context;
  config->kv = options.kv == EDGEDEC_KV_INT8 ? KvType::kInt8 : KvType::kFp16;
  config->memory = static_cast<int64_t>(options.memory);
  config->draft = options.draft ? options.draft : "auto";
  if (options.draft_tokens) config->draft_tokens = static_cast<int>(options.draft_tokens < 1000 ? options.draft_tokens : 1000);
  config->verify = options.verify != 0;
  config->runtime_path = text(options.runtime_path);
  config->runtime_api = static_cast<const OrtApiBase*>(options.runtime_api);
  config->cost_folder = text(options.cost_folder);
  config->tables_folder = text(options.tables_folder);
  return {};
}

// Makes a model of options; `act` does the rest with it.
template <class Act>
Status with_model(const char* folder, const edgedec_options* options, std::unique_ptr<edgedec_engine>* engine, Act act) {
  RunConfig config;
  EDGEDEC_TRY(config_of(folder, options, &config));
  engine->reset(new (std::nothrow) edgedec_engine(options ? options->notice : nullptr, options ? options->notice_user : nullptr));
  if (!*engine) return {Code::kNoMemory, "there is no memory for an engine"};
  return act((*engine)->model, config);
}

Status text_out(const std::string& text, char** out) {
  *out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!*out) return {Code::kNoMemory, "there is no memory for a text"};
  std::memcpy(*out, text.c_str(), text.size() + 1);
  return {};
}

}  // namespace

extern "C" {

edgedec_code edgedec_plan(const char* folder, const edgedec_options* options, char** json, edgedec_status* status) {
  if (!json) return told(missing("place for the plan"), status);
  *json = nullptr;
  std::unique_ptr<edgedec_engine> engine;
  return told(with_model(folder, options, &engine,
                         [&](Model& model, const RunConfig& config) {
                           EDGEDEC_TRY(model.prepare(config));
                           return text_out(model.plan(), json);
                         }),
              status);
}

edgedec_code edgedec_open(const char* folder, const edgedec_options* options, edgedec_engine** engine,
                          edgedec_status* status) {
  if (!engine) return told(missing("place for the engine"), status);
  *engine = nullptr;
  std::unique_ptr<edgedec_engine> made;
  const Status opened = with_model(folder, options, &made, [](Model& model, const RunConfig& config) {
    EDGEDEC_TRY(model.prepare(config));
    return model.start();
  });
  if (opened.ok()) *engine = made.release();
  return told(opened, status);
}

void edgedec_close(edgedec_engine* engine) { delete engine; }

edgedec_code edgedec_sampling_of(edgedec_engine* engine, edgedec_sampling* sampling, edgedec_status* status) {
  return guarded(engine, status, [&](Model& model) {
    if (!sampling) return missing("place for the values");
    write_params(model.preset().sampling, sampling);
    return Status();
  });
}

edgedec_code edgedec_encode(edgedec_engine* engine, const char* text, size_t text_size, int32_t specials, int32_t* tokens,
                            size_t room, size_t* count, edgedec_status* status) {
  return guarded(engine, status, [&](Model& model) {
    if ((!text && text_size) || !count || (!tokens && room)) return missing("text, or place for its tokens");
    std::vector<int32_t> ids;
    EDGEDEC_TRY(model.encode({text, text_size}, specials != 0, &ids));
    *count = ids.size();
    for (size_t at = 0; at < ids.size() && at < room; ++at) tokens[at] = ids[at];
    return Status();
  });
}

edgedec_code edgedec_decode(edgedec_engine* engine, const int32_t* tokens, size_t count, char* text, size_t room,
                            size_t* text_size, edgedec_status* status) {
  return guarded(engine, status, [&](Model& model) {
    if ((!tokens && count) || !text_size || (!text && room)) return missing("tokens, or place for their text");
    const std::string found = model.decode({tokens, count});
    *text_size = found.size();
    if (room) std::memcpy(text, found.data(), found.size() < room ? found.size() : room);
    return Status();
  });
}

edgedec_code edgedec_reply(edgedec_engine* engine, const edgedec_message* messages, size_t count,
                           const edgedec_request* request, edgedec_result* result, edgedec_status* status) {
  return guarded(engine, status, [&](Model& model) { return model.reply({messages, messages ? count : 0}, request, result); });
}

edgedec_code edgedec_more(edgedec_engine* engine, const edgedec_request* request, edgedec_result* result,
                          edgedec_status* status) {
  return guarded(engine, status, [&](Model& model) { return model.more(request, result); });
}

edgedec_code edgedec_complete(edgedec_engine* engine, const char* text, size_t text_size, const edgedec_request* request,
                              edgedec_result* result, edgedec_status* status) {
  return guarded(engine, status, [&](Model& model) {
    if (!text && text_size) return missing("text");
    return model.complete({text, text_size}, request, result);
  });
}

edgedec_code edgedec_generate(edgedec_engine* engine, const int32_t* prompt, size_t count, const edgedec_request* request,
                              edgedec_result* result, edgedec_status* status) {
  return guarded(engine, status, [&](Model& model) {
    if (!prompt && count) return missing("prompt");
    return model.generate({prompt, count}, request, result);
  });
}

void edgedec_stop(edgedec_engine* engine) {
  if (engine) engine->model.stop();
}

edgedec_code edgedec_stats(edgedec_engine* engine, char** json, edgedec_status* status) {
  return guarded(engine, status, [&](Model& model) {
    return json ? text_out(model.stats(), json) : missing("place for the figures");
  });
}

edgedec_code edgedec_measure_again(edgedec_engine* engine, edgedec_status* status) {
  return guarded(engine, status, [](Model& model) { return model.measure_again(); });
}

edgedec_code edgedec_save(edgedec_engine* engine, const char* path, edgedec_status* status) {
  return guarded(engine, status, [&](Model& model) { return path && *path ? model.save(path) : missing("path"); });
}

edgedec_code edgedec_restore(edgedec_engine* engine, const char* path, edgedec_status* status) {
  return guarded(engine, status, [&](Model& model) { return path && *path ? model.restore(path) : missing("path"); });
}

}  // extern "C"
