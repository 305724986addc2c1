#include "engine/capi/session.h"

#include <algorithm>

#include "core/base/format.h"
#include "core/base/json.h"
#include "engine/base/sha256.h"
#include "engine/base/version.h"
#include "engine/model/session_file.h"

namespace edgedec::engine {
namespace {

constexpr JsonLimits kLimits = {size_t{64} << 20, 64, size_t{1} << 24};

// A hash over all files of the bundle: edgedec/bundle/model_id.py.
std::string model_hash(const Manifest& manifest) {
  std::vector<const FileEntry*> files;
  for (const FileEntry& file : manifest.files) files.push_back(&file);
  std::sort(files.begin(), files.end(), [](const FileEntry* a, const FileEntry* b) { return a->name < b->name; });
  std::string lines;
  for (const FileEntry* file : files) lines += (lines.empty() ? "" : "\n") + file->name + " " + file->sha256;
  return sha256_of(lines);
}

void write_ids(Span<const int32_t> ids, JsonWriter* out) {
  out->begin_list();
  for (int32_t id : ids) out->whole(id);
  out->end_list();
}

void write_unfinished(const std::optional<Unfinished>& cut, JsonWriter* out) {
  if (!cut) {
    out->null();
    return;
  }
  out->begin_object().key("prompt").begin_object().key("text").text(cut->prompt.text);
  write_ids(cut->prompt.ids, &out->key("ids"));
  write_ids(cut->tokens, &out->end_object().key("said"));
  out->key("shown").text(cut->shown);
  if (cut->bound) out->key("bound").real(*cut->bound);
  out->end_object();
}

std::string document_of(Run& run, const SavedConversation& conversation, Span<const int32_t> cached) {
  JsonWriter out(false);
  out.begin_object().key("format").text("edgedec-session").key("version").whole(2);
  out.key("model").begin_object().key("name").text(run.manifest().name).key("sha256").text(model_hash(run.manifest()));
  write_sampling(conversation.params, &out.end_object().key("params").begin_object());
  out.key("seed").raw(decimal(conversation.params.seed)).key("logit_bias").begin_list();
  for (const auto& [token, value] : conversation.params.logit_bias) out.begin_list().whole(token).real(value).end_list();
  out.end_list().end_object().key("messages").begin_list();
  for (const ChatMessage& message : conversation.messages) write_message(message, &out);
  out.end_list().key("text").text(conversation.seen.text).key("tokens");
  write_ids(conversation.seen.ids, &out);
  write_unfinished(conversation.unfinished, &out.key("unfinished"));
  out.key("cache").begin_object().key("layout").text(run.forward().cache_layout());
  write_ids(cached, &out.key("edgedec").text(kVersionText).key("tokens"));
  return out.end_object().end_object().take();
}

Status damaged(const std::string& path, const char* why) {
  return {Code::kBadFile, path + " is a damaged conversation: " + why};
}

bool read_ids(JsonValue list, int64_t vocabulary, std::vector<int32_t>* ids) {
  ids->clear();
  for (size_t at = 0; at < list.size(); ++at) {
    const int64_t id = list.at(at).whole().value_or(-1);
    if (id < 0 || id >= vocabulary) return false;
    ids->push_back(static_cast<int32_t>(id));
  }
  return list.is_list();
}

// Reads messages and what was seen.
bool read_conversation(JsonValue document, int64_t vocabulary, SavedConversation* conversation) {
  const JsonValue messages = document["messages"];
  conversation->messages.clear();
  if (!read_chat_messages(messages, &conversation->messages).ok() || !document["text"].text()) return false;
  conversation->seen.text = std::string(*document["text"].text());
  return read_ids(document["tokens"], vocabulary, &conversation->seen.ids);
}

// Reads the reply to continue, which is the last one of the messages.
bool read_unfinished(JsonValue item, int64_t vocabulary, SavedConversation* conversation) {
  const auto& messages = conversation->messages;
  const auto text = item["prompt"]["text"].text(), shown = item["shown"].text();
  if (messages.size() < 2 || messages.back().role != "assistant") return false;
  if (messages.end()[-2].role != "user" && messages.end()[-2].role != "tool") return false;
  if (!text || !shown) return false;
  Unfinished cut;
  cut.prompt.text = *text;
  cut.shown = *shown;
  if (const JsonValue bound = item["bound"]; !bound.missing() && !bound.is_null()) {
    cut.bound = bound.number();
    if (!cut.bound) return false;
  }
  if (!read_ids(item["prompt"]["ids"], vocabulary, &cut.prompt.ids) || !read_ids(item["said"], vocabulary, &cut.tokens)) return false;
  conversation->unfinished = std::move(cut);
  return true;
}

// Why a KV cache cannot be used here; empty if it can.
std::string unfit(Run& run, JsonValue cache, size_t tokens) {
  const std::string layout(cache["layout"].text().value_or("")), here = run.forward().cache_layout();
  const std::string version(cache["edgedec"].text().value_or(""));
  if (layout != here) return "is of kind " + quoted(layout, 80) + ", and the one here " + here;
  if (static_cast<int64_t>(tokens) > run.forward().capacity())
    return "has " + decimal(uint64_t{tokens}) + " tokens, and the context holds " + decimal(run.forward().capacity());
  if (version != kVersionText) return "is from EdgeDec " + quoted(version) + ", whose bits may differ from those of " + kVersionText;
  return {};
}

Status restore_cache(Run& run, const std::string& path, JsonValue cache, SessionReader& file, Notice* notice) {
  std::vector<int32_t> tokens;
  if (!read_ids(cache["tokens"], run.manifest().spec.vocab_size, &tokens)) return damaged(path, "its cache has no tokens");
  if (tokens.empty() && !file.body_bytes()) return {};
  if (const std::string why = unfit(run, cache, tokens.size()); !why.empty()) {
    if (notice) notice->tell("note: the cache in " + path + " " + why + "; the next reply reads the conversation again");
    return {};
  }
  const auto count = static_cast<int64_t>(tokens.size());
  if (file.body_bytes() != static_cast<uint64_t>(run.forward().cache_bytes(count)))
    return damaged(path, "its cache has the wrong size");
  EDGEDEC_TRY(run.engine().reset());
  if (const Status read = run.forward().read_cache(file, count); !read.ok()) {
    const Status empty = run.engine().reset();
    return empty.ok() ? read : empty;
  }
  return run.engine().adopt(tokens);
}

}  // namespace

Status save_session(Run& run, const std::string& path, const SavedConversation& conversation) {
  const Span<const int32_t> committed = run.engine().committed();
  const auto cached = static_cast<size_t>(run.forward().length());
  const bool whole = run.forward().reachable(static_cast<int64_t>(cached)) == static_cast<int64_t>(cached);
  const Span<const int32_t> kept = committed.first(whole ? cached : 0);
  SessionWriter file;
  EDGEDEC_TRY(file.open(path, document_of(run, conversation, kept)));
  if (!kept.empty()) EDGEDEC_TRY(run.forward().write_cache(file, static_cast<int64_t>(kept.size())));
  return file.commit();
}

Status restore_session(Run& run, const std::string& path, Notice* notice, SavedConversation* conversation) {
  SessionReader file;
  EDGEDEC_TRY(file.open(path));
  Json json;
  if (!json.parse(file.document(), kLimits)) return damaged(path, "its document is not JSON");
  const JsonValue document = json.root();
  const Manifest& manifest = run.manifest();
  const std::string theirs(document["model"]["name"].text().value_or(""));
  if (document["model"]["sha256"].text() != model_hash(manifest))
    return {Code::kUsage,
            path + " is a conversation with " + quoted(theirs) + ", and this is " +
                (theirs == manifest.name ? "another build of " : "") + manifest.name,
            "open the model that it was saved with"};
  if (!read_conversation(document, manifest.spec.vocab_size, conversation)) return damaged(path, "its texts or tokens are wrong");
  // A form that the reply must have is unknown here, so such a reply has no continuation.
  const JsonValue unfinished = document["unfinished"];
  if (unfinished.is_object() && !unfinished["form"].is_object() &&
      !read_unfinished(unfinished, manifest.spec.vocab_size, conversation))
    return damaged(path, "the reply to continue is wrong");
  const JsonValue cache = document["cache"];
  if (cache.is_null()) return file.body_bytes() ? damaged(path, "its cache has the wrong size") : Status();
  if (!cache.is_object()) return damaged(path, "its cache is not described");
  return restore_cache(run, path, cache, file, notice);
}

}  // namespace edgedec::engine
