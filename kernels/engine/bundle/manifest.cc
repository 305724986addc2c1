#include "engine/bundle/manifest.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/memory/size.h"
#include "engine/bundle/cache_kinds.h"

namespace edgedec::engine {
namespace {

constexpr const char* kBundleFormat = "edgedec-bundle";
constexpr int64_t kBundleVersion = 2;
constexpr const char* kByName = "package index";  // source.kind of models that are pulled by the name of a recipe
constexpr const char* kAgain = "pull or export the model again";
constexpr FolderKind kBundle = {"manifest.json", "bundle", kAgain};
constexpr std::string_view kBundleFields[] = {"format", "version", "kind", "name", "architecture", "spec", "tokenizer", "preset",
                                        "files", "source", "versions"};

Status other_version(int64_t version, const ManifestFields& top) {
  std::string name;
  JsonValue source;
  EDGEDEC_TRY(top.text("name", &name));
  const std::string message = "bundle " + name + " has version " + decimal(version) + ", and this EdgeDec reads version " +
                              decimal(kBundleVersion);
  if (version > kBundleVersion) return {Code::kUnsupported, message, "update EdgeDec"};
  EDGEDEC_TRY(top.scalars("source", &source));
  return {Code::kUnsupported, message, source["kind"].text() == kByName ? "pull the model again" : kAgain};
}

Status read_tokenizer(const ManifestFields& reader, TokenizerInfo* info) {
  EDGEDEC_TRY(reader.flag("add_bos", &info->add_bos));
  EDGEDEC_TRY(reader.maybe_id("bos_id", &info->bos_id));
  EDGEDEC_TRY(reader.token_ids("eos_ids", &info->eos_ids));
  std::string kind;
  const Status read = reader.text("kind", &kind);
  if (!reader.has("kind")) return read;
  if (kind == "other") return reader.wrong("kind", "is 'other', as that of a model that makes vectors");
  if (kind != "bpe" && kind != "spm") return reader.wrong("kind", "is none of 'bpe', 'spm' and 'other'");
  info->spm = kind == "spm";
  return reader.flag("chat_template", &info->chat_template);
}

Status read_experts(const ManifestFields& reader, Experts* experts) {
  constexpr int64_t kMost = int64_t{1} << 50, kLeastBytes = 4096;  // an expert's alignment in its file
  ManifestFields value = reader;
  if (!reader.below("experts", &value).ok()) return reader.wrong("experts", "is no object");
  const std::pair<const char*, int64_t*> sizes[] = {
      {"layers", &experts->layers}, {"count", &experts->count},           {"chosen", &experts->chosen},
      {"width", &experts->width},   {"slot_bytes", &experts->slot_bytes}, {"nbytes", &experts->nbytes}};
  for (const auto& [name, size] : sizes)
    if (!value.byte_count(name, size).ok() || *size < 1 || *size > kMost)
      return reader.wrong("experts", std::string("has no proper ") + name);
  if (value.has("shared") && (!value.byte_count("shared", &experts->shared).ok() || experts->shared > kMost))
    return reader.wrong("experts", "has no proper shared");
  const Size total = Size(experts->layers) * experts->count;
  const bool fit = (total * kLeastBytes).count() <= experts->nbytes && experts->nbytes <= (total * experts->slot_bytes).count();
  if (experts->chosen > experts->count || experts->slot_bytes > experts->nbytes || !fit)
    return reader.wrong("experts", "has sizes that do not fit each other");
  return {};
}

Status read_spec(const ManifestFields& reader, ModelSpec* spec) {
  EDGEDEC_TRY(reader.text("name", &spec->name));
  EDGEDEC_TRY(reader.text("architecture", &spec->architecture));
  EDGEDEC_TRY(reader.maybe_id("bos_id", &spec->bos_id));
  EDGEDEC_TRY(reader.token_ids("eos_ids", &spec->eos_ids));
  EDGEDEC_TRY(reader.count("head_k", &spec->head_k));
  EDGEDEC_TRY(reader.token_id("ffn_size", &spec->ffn_size));
  EDGEDEC_TRY(reader.token_id("n_window_layers", &spec->n_window_layers));
  EDGEDEC_TRY(reader.token_id("window", &spec->window));
  EDGEDEC_TRY(reader.byte_count("table_bytes", &spec->table_bytes));
  if (reader.has("caches")) EDGEDEC_TRY(read_caches(reader, spec));
  if (reader.has("experts")) EDGEDEC_TRY(read_experts(reader, &spec->experts));
  EDGEDEC_TRY(reader.count("vocab_size", &spec->vocab_size));
  EDGEDEC_TRY(reader.count("n_layers", &spec->n_layers));
  EDGEDEC_TRY(reader.count("n_heads", &spec->n_heads));
  EDGEDEC_TRY(reader.count("n_kv_heads", &spec->n_kv_heads));
  EDGEDEC_TRY(reader.count("head_dim", &spec->head_dim));
  EDGEDEC_TRY(reader.count("hidden_size", &spec->hidden_size));
  EDGEDEC_TRY(reader.count("context_length", &spec->context_length));
  const bool windows = spec->n_window_layers <= spec->n_layers && (spec->n_window_layers > 0) == (spec->window > 0);
  // One number says how many tokens all states cover.
  const auto tails = [&](const States& kind) { return kind.tail != spec->states[0].tail; };
  const bool covers = std::none_of(spec->states.begin(), spec->states.end(), tails);
  if (spec->n_heads % spec->n_kv_heads || spec->head_k > spec->vocab_size || !windows || !covers)
    return kBundle.broken("the sizes of spec do not fit each other");
  const auto outside = [&](int64_t id) { return id >= spec->vocab_size; };
  if (std::any_of(spec->eos_ids.begin(), spec->eos_ids.end(), outside) || outside(spec->bos_id))
    return kBundle.broken("a token id of spec lies outside the vocabulary");
  return {};
}

Status read_files(const ManifestFields& top, Manifest* manifest) {
  JsonValue table;
  EDGEDEC_TRY(top.object("files", &table));
  EDGEDEC_TRY(kBundle.files(table, &manifest->files));
  std::vector<const char*> needed = {manifest->file(kTokenizerTable) ? kTokenizerTable : kTokenizerFile};
  if (manifest->kind == "edgedec" || manifest->kind == "optimum") needed.insert(needed.end(), {kModelFile, kWeightsFile});
  if (manifest->kind == "gguf") needed.push_back("model.gguf");
  if (manifest->tokenizer.chat_template) needed.push_back(kTemplateFile);
  std::sort(needed.begin(), needed.end(), [](std::string_view a, std::string_view b) { return a < b; });
  for (const char* name : needed)
    if (!manifest->file(name)) return kBundle.broken(std::string("it does not list ") + name);
  return {};
}

}  // namespace

const FileEntry* Manifest::file(std::string_view file_name) const {
  for (const FileEntry& entry : files)
    if (entry.name == file_name) return &entry;
  return nullptr;
}

Status Manifest::from_json(std::string_view text, Manifest* manifest) {
  *manifest = {};
  Json json;
  if (!json.parse(text)) return kBundle.broken("it is not JSON");
  const ManifestFields top(kBundle, "the manifest", json.root());
  EDGEDEC_TRY(top.check());
  std::string format;
  int64_t version;
  EDGEDEC_TRY(top.text("format", &format));
  if (format != kBundleFormat) return kBundle.broken(std::string("its format is not '") + kBundleFormat + "'");
  EDGEDEC_TRY(top.count("version", &version));
  if (version != kBundleVersion) return other_version(version, top);
  EDGEDEC_TRY(top.check_seal({kBundleFields, std::size(kBundleFields)}));
  ManifestFields below = top;
  EDGEDEC_TRY(top.below("tokenizer", &below));
  EDGEDEC_TRY(read_tokenizer(below, &manifest->tokenizer));
  EDGEDEC_TRY(top.text("kind", &manifest->kind));
  EDGEDEC_TRY(read_files(top, manifest));
  EDGEDEC_TRY(top.below("spec", &below));
  EDGEDEC_TRY(read_spec(below, &manifest->spec));
  JsonValue scalars;
  EDGEDEC_TRY(top.scalars("source", &scalars));
  EDGEDEC_TRY(top.scalars("versions", &scalars));
  if (top.has("preset")) {
    JsonValue preset;
    EDGEDEC_TRY(top.object("preset", &preset));
    if (const Status read = read_preset(preset, &manifest->preset); !read.ok()) return top.wrong("preset", read.message());
  }
  return top.text("name", &manifest->name);
}

Status Manifest::load(const std::string& folder, bool verify, Manifest* manifest) {
  std::string text;
  EDGEDEC_TRY(kBundle.read(folder, &text));
  EDGEDEC_TRY(from_json(text, manifest));
  for (const FileEntry& entry : manifest->files) EDGEDEC_TRY(kBundle.check(folder, entry, verify));
  return {};
}

}  // namespace edgedec::engine
