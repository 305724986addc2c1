// Functions that tests of bundle/ call.
#include "engine/bundle/manifest.h"
#include "engine/probes/report.h"

using namespace edgedec::engine;

namespace {

void write_ids(const std::vector<int32_t>& ids, JsonWriter* out) {
  out->begin_list();
  for (int32_t id : ids) out->whole(id);
  out->end_list();
}

void maybe(int64_t id, JsonWriter* out) { id < 0 ? out->null() : out->whole(id); }

void write_caches(const ModelSpec& spec, JsonWriter* out) {
  if (spec.keys.empty() && spec.states.empty()) return;
  out->key("caches").begin_list();
  for (const Keys& one : spec.keys) {
    out->begin_object().key("kind").text("keys").key("name").text(one.window ? "kv_window" : "kv_cache");
    out->key("layers").whole(one.layers).key("kv_heads").whole(one.kv_heads).key("head_dim").whole(one.head_dim);
    out->key("window").whole(one.window).end_object();
  }
  for (const States& one : spec.states) {
    out->begin_object().key("kind").text("states").key("name").text(one.name).key("layers").whole(one.layers);
    out->key("trail").whole(one.row).key("tail").whole(one.tail).key("state").whole(one.state).end_object();
  }
  out->end_list();
}

void write_experts(const Experts& experts, JsonWriter* out) {
  if (!experts.count) return;
  out->key("experts").begin_object().key("layers").whole(experts.layers).key("count").whole(experts.count);
  out->key("chosen").whole(experts.chosen).key("width").whole(experts.width).key("slot_bytes").whole(experts.slot_bytes);
  out->key("nbytes").whole(experts.nbytes).key("shared").whole(experts.shared).end_object();
}

std::string facts_of(const Manifest& manifest) {
  const ModelSpec& spec = manifest.spec;
  JsonWriter out;
  out.begin_object().key("name").text(manifest.name).key("kind").text(manifest.kind);
  out.key("spec").begin_object().key("name").text(spec.name).key("architecture").text(spec.architecture);
  const std::pair<const char*, int64_t> sizes[] = {
      {"vocab_size", spec.vocab_size}, {"n_layers", spec.n_layers}, {"n_heads", spec.n_heads},
      {"n_kv_heads", spec.n_kv_heads}, {"head_dim", spec.head_dim}, {"hidden_size", spec.hidden_size},
      {"context_length", spec.context_length}, {"head_k", spec.head_k}, {"ffn_size", spec.ffn_size},
      {"n_window_layers", spec.n_window_layers}, {"window", spec.window}, {"table_bytes", spec.table_bytes}};
  for (const auto& [name, value] : sizes) out.key(name).whole(value);
  maybe(spec.bos_id, &out.key("bos_id"));
  write_ids(spec.eos_ids, &out.key("eos_ids"));
  write_caches(spec, &out);
  write_experts(spec.experts, &out);
  out.end_object().key("tokenizer").begin_object().key("add_bos").flag(manifest.tokenizer.add_bos);
  maybe(manifest.tokenizer.bos_id, &out.key("bos_id"));
  write_ids(manifest.tokenizer.eos_ids, &out.key("eos_ids"));
  out.key("kind").text(manifest.tokenizer.spm ? "spm" : "bpe");
  out.key("chat_template").flag(manifest.tokenizer.chat_template).end_object();
  out.key("preset").begin_object();
  write_sampling(manifest.preset.sampling, &out);
  out.key("system");
  manifest.preset.system ? out.text(*manifest.preset.system) : out.null();
  out.key("stops").begin_list();
  for (const std::string& stop : manifest.preset.stops) out.text(stop);
  out.end_list().end_object().key("files").begin_object();
  for (const FileEntry& file : manifest.files)
    out.key(file.name).begin_object().key("bytes").whole(file.bytes).key("sha256").text(file.sha256).end_object();
  out.end_object().end_object();
  return out.take();
}

}  // namespace

// The facts of a manifest's text, or its error, as JSON.
EDGEDEC_EXPORT char* edgedec_probe_manifest(const char* text, size_t size, size_t* out_size) {
  Manifest manifest;
  const Status status = Manifest::from_json({text, size}, &manifest);
  return status.ok() ? copied(facts_of(manifest), out_size) : reported(status, out_size);
}

// The same for a bundle in a folder.
EDGEDEC_EXPORT char* edgedec_probe_bundle(const char* folder, int verify, size_t* out_size) {
  Manifest manifest;
  const Status status = Manifest::load(folder, verify, &manifest);
  return status.ok() ? copied(facts_of(manifest), out_size) : reported(status, out_size);
}
