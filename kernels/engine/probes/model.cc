// Functions that tests of model/ call.
#include <string.h>

#include <memory>
#include <string>

#include "common/capi.h"
#include "engine/bundle/manifest.h"
#include "engine/model/onnx_model.h"
#include "engine/model/session_file.h"
#include "engine/probes/open_forward.h"
#include "engine/probes/report.h"

using namespace edgedec::engine;

namespace {

struct OpenModel {
  Runtime runtime;
  std::unique_ptr<OnnxModel> model;
};

Status last;

struct BytesSink : CacheSink {
  uint8_t* data;
  size_t room, size = 0;
  BytesSink(uint8_t* data, size_t room) : data(data), room(room) {}
  Status write(const void* from, size_t count) override {
    if (count > room - size) return {Code::kStorage, "no room"};
    memcpy(data + size, from, count);
    size += count;
    return {};
  }
};

struct BytesSource : CacheSource {
  const uint8_t* data;
  size_t left;
  BytesSource(const uint8_t* data, size_t left) : data(data), left(left) {}
  Status read(void* to, size_t count) override {
    if (count > left) return {Code::kBadFile, "it ends early"};
    memcpy(to, data, count);
    data += count;
    left -= count;
    return {};
  }
};

}  // namespace

int edgedec::engine::noted(Status status) {
  last = std::move(status);
  return static_cast<int>(last.code());
}

// The message of the last failed call of any probe of the model; `hint`: how to mend it.
EDGEDEC_EXPORT const char* edgedec_probe_model_said(int hint) {
  return hint ? last.hint().c_str() : last.message().c_str();
}

// `manifest`: the text of one, which may be another bundle's. `memory`: bytes that the process may take, which decide whether
// experts are read from the disk; 0: what the machine has left.
EDGEDEC_EXPORT int edgedec_probe_model_open(const char* runtime, const char* bundle, const char* manifest, int threads,
                                            int spin, int drafting, int64_t memory, OpenModel** out) {
  auto made = std::make_unique<OpenModel>();
  Manifest facts;
  Status status = Manifest::from_json(manifest, &facts);
  if (status.ok()) status = Runtime::load(runtime, &made->runtime);
  if (status.ok())
    status = OnnxModel::open(made->runtime, bundle, facts.spec, facts.file(kWeightsFile)->bytes,
                             {threads, spin != 0, drafting != 0, {}, {memory, 0}}, &made->model);
  *out = status.ok() ? made.release() : nullptr;
  return noted(std::move(status));
}

EDGEDEC_EXPORT int64_t edgedec_probe_model_weights(const OpenModel* model) { return model->model->weight_bytes(); }

// Lets passes keep so many experts in memory; returns how many they may: -1: none are read from the disk.
EDGEDEC_EXPORT int64_t edgedec_probe_model_slots(const OpenModel* model, int64_t slots) {
  ExpertStore* experts = model->model->experts();
  if (experts) experts->limit(slots);
  return experts ? experts->slots() : -1;
}

EDGEDEC_EXPORT void edgedec_probe_model_close(OpenModel* model) { delete model; }

EDGEDEC_EXPORT int edgedec_probe_forward_open(OpenModel* model, int64_t capacity, int int8, int64_t max_pass,
                                              OpenForward** out) {
  auto made = std::make_unique<OpenForward>();
  const CacheConfig cache{capacity, int8 ? KvType::kInt8 : KvType::kFp16, max_pass};
  Status status = model->model->forward(cache, &made->ledger, &made->forward);
  if (status.ok()) made->text = made->forward->cache_layout();
  *out = status.ok() ? made.release() : nullptr;
  return noted(std::move(status));
}

EDGEDEC_EXPORT void edgedec_probe_forward_close(OpenForward* forward) { delete forward; }

// capacity, length, most tokens of a pass, bytes leased for the cache, whole rows of logits and recurrent states.
EDGEDEC_EXPORT void edgedec_probe_forward_facts(const OpenForward* it, int64_t* facts) {
  facts[0] = it->forward->capacity();
  facts[1] = it->forward->length();
  facts[2] = it->forward->max_pass();
  facts[3] = it->ledger.held("kv_cache");
  facts[4] = it->ledger.held("rows");
  facts[5] = it->ledger.held("state");
}

// `exit`: 0 for a whole pass, else a peek after so many layers, which goes on behind `resume`. `taps`: layers whose outputs to return.
EDGEDEC_EXPORT int edgedec_probe_forward_extend(OpenForward* it, const int32_t* tokens, size_t count, const int* parents,
                                                size_t parent_count, int which, const int* indices, size_t index_count,
                                                int full, double temperature, int exit, int resume, const int* taps, size_t tap_count,
                                                const int64_t* keep, size_t keep_count) {
  const Rows rows{static_cast<Rows::Which>(which), {indices, index_count}, full != 0, temperature,
                  {taps, tap_count}, {keep, keep_count}};
  return noted(exit ? it->forward->peek({tokens, count}, {exit, resume}, rows, &it->rows)
                    : it->forward->extend({tokens, count}, {parents, parent_count}, rows, &it->rows));
}

EDGEDEC_EXPORT void edgedec_probe_forward_free_logits(OpenForward* it) { it->forward->free_logits(&it->rows); }

// Tokens peeked, layers whose outputs are to be had, bytes leased for them.
EDGEDEC_EXPORT void edgedec_probe_forward_parts(const OpenForward* it, int64_t* facts) {
  facts[0] = static_cast<int64_t>(it->forward->peeked().size());
  facts[1] = static_cast<int64_t>(it->forward->taps().size());
  facts[2] = it->ledger.held("hidden");
}

// The rows of the last pass: values, ids, logsumexp, entropy, logits and hidden states, and the number of their elements.
EDGEDEC_EXPORT const void* edgedec_probe_forward_rows(const OpenForward* it, int which, size_t* size) {
  const HeadRows& rows = it->rows;
  const auto told = [size](const auto& all) -> const void* {
    *size = all.size();
    return all.data();
  };
  switch (which) {
    case 0: return told(rows.values);
    case 1: return told(rows.ids);
    case 2: return told(rows.logsumexp);
    case 3: return told(rows.entropy);
    case 4: return told(rows.logits);
    default: return told(rows.hidden);
  }
}

EDGEDEC_EXPORT int64_t edgedec_probe_forward_reachable(const OpenForward* it, int64_t length) {
  return it->forward->reachable(length);
}

EDGEDEC_EXPORT int edgedec_probe_forward_rewind(OpenForward* it, int64_t length) {
  return noted(it->forward->rewind(length));
}

EDGEDEC_EXPORT int edgedec_probe_forward_keep(OpenForward* it, const int* nodes, size_t count) {
  return noted(it->forward->keep_path({nodes, count}));
}

EDGEDEC_EXPORT const char* edgedec_probe_forward_layout(const OpenForward* it) { return it->text.c_str(); }

EDGEDEC_EXPORT int64_t edgedec_probe_forward_bytes(const OpenForward* it, int64_t length) {
  return it->forward->cache_bytes(length);
}

EDGEDEC_EXPORT int edgedec_probe_forward_write(OpenForward* it, int64_t length, uint8_t* data, size_t room, size_t* size) {
  BytesSink sink(data, room);
  const int code = noted(it->forward->write_cache(sink, length));
  *size = sink.size;
  return code;
}

EDGEDEC_EXPORT int edgedec_probe_forward_read(OpenForward* it, int64_t length, const uint8_t* data, size_t size) {
  BytesSource source(data, size);
  return noted(it->forward->read_cache(source, length));
}

// Writes a session file with the cache of the first `length` tokens, or reads one into the cache.
EDGEDEC_EXPORT int edgedec_probe_session_write(OpenForward* it, const char* path, const char* document, int64_t length) {
  SessionWriter writer;
  Status status = writer.open(path, document);
  if (status.ok() && length) status = it->forward->write_cache(writer, length);
  return noted(status.ok() ? writer.commit() : std::move(status));
}

EDGEDEC_EXPORT int edgedec_probe_session_read(OpenForward* it, const char* path, int64_t length) {
  SessionReader reader;
  Status status = reader.open(path);
  if (status.ok()) status = it->forward->read_cache(reader, length);
  return noted(status.ok() && reader.body_bytes() ? Status(Code::kBadFile, "there is more") : std::move(status));
}

// The document of a session file, or the error as JSON that begins with {"code".
EDGEDEC_EXPORT char* edgedec_probe_session_document(const char* path, size_t* out_size) {
  SessionReader reader;
  const Status status = reader.open(path);
  return status.ok() ? copied(reader.document(), out_size) : reported(status, out_size);
}
