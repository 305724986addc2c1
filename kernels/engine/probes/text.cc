// Functions that tests of text/ call: a request and its answer are JSON.
#include <cstring>
#include <memory>

#include "engine/probes/report.h"
#include "engine/text/call_reader.h"
#include "engine/text/prompt.h"
#include "engine/text/text_stream.h"
#include "engine/text/thinking.h"

using namespace edgedec::engine;

namespace {

struct Text {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string program, source;
  ChatTemplate chat;
  std::unique_ptr<Prompts> prompts;
};

std::string text_in(JsonValue value) { return std::string(value.text().value_or("")); }

std::vector<int32_t> ids_in(JsonValue list) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < list.size(); ++i) ids.push_back(static_cast<int32_t>(list.at(i).whole().value_or(-1)));
  return ids;
}

std::vector<std::string> texts_in(JsonValue list) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < list.size(); ++i) texts.push_back(text_in(list.at(i)));
  return texts;
}

void write_prompt_ids(const std::vector<int32_t>& ids, JsonWriter* out) {
  out->key("ids").begin_list();
  for (const int32_t id : ids) out->whole(id);
  out->end_list();
}

Status encode(Text& text, JsonValue request, JsonWriter* out) {
  std::vector<int32_t> ids;
  const std::string given = text_in(request["text"]);
  if (request["inside"].flag().value_or(false)) {
    EDGEDEC_TRY(text.tokenizer->encode_inside(given, &ids));
  } else {
    EDGEDEC_TRY(text.tokenizer->encode(given, request["specials"].flag().value_or(false), &ids));
  }
  write_prompt_ids(ids, out);
  return {};
}

Status stream(Text& text, JsonValue request, JsonWriter* out) {
  TextStream stream(*text.tokenizer);
  const std::vector<std::string> stops = texts_in(request["stops"]);
  const std::vector<int32_t> before = ids_in(request["tokens"]), spelled = ids_in(request["spelled"]);
  EDGEDEC_TRY(TextStream::of(*text.tokenizer, stops, before, text_in(request["shown"]), spelled, &stream));
  out->key("pieces").begin_list();
  for (const int32_t id : ids_in(request["ids"])) out->text(stream.push(id));
  out->text(stream.flush(request["characters"].flag().value_or(true))).end_list();
  out->key("stopped").flag(stream.stopped()).key("whole").text(stream.whole());
  return {};
}

Status facts(Text& text, JsonValue request, JsonWriter* out) {
  const Tokenizer& tokenizer = *text.tokenizer;
  out->key("size").whole(static_cast<int64_t>(tokenizer.size())).key("adds_space").flag(tokenizer.adds_space());
  out->key("most_bytes").whole(static_cast<int64_t>(tokenizer.most_bytes(1)));
  out->key("control").begin_object();
  for (const auto& [spelled, id] : tokenizer.control()) out->key(spelled).whole(id);
  out->end_object().key("pieces").begin_list();
  for (int64_t id = request["first"].whole().value_or(0); id < request["end"].whole().value_or(0); ++id) {
    std::string bytes;
    tokenizer.append_piece(id, &bytes);
    out->begin_list();
    for (const char byte : bytes) out->whole(static_cast<unsigned char>(byte));
    out->end_list();
  }
  out->end_list();
  return {};
}

Status think(JsonValue request, JsonWriter* out) {
  const std::string source = text_in(request["source"]);
  ThinkingSplitter splitter(request["begun"].flag().value_or(false), thinking_tags(source));
  out->key("parts").begin_list();
  const auto write = [&](const ThinkingSplitter::Parts& parts) {
    out->begin_list().text(parts.thinking).text(parts.answer).end_list();
  };
  for (const std::string& piece : texts_in(request["pieces"])) write(splitter.push(piece));
  write(splitter.flush());
  out->end_list();
  return {};
}

Status stop(JsonValue request, JsonWriter* out) {
  StopStrings stops;
  EDGEDEC_TRY(StopStrings::of(texts_in(request["stops"]), &stops));
  out->key("parts").begin_list();
  for (const std::string& piece : texts_in(request["pieces"])) out->text(stops.push(piece));
  out->text(stops.flush()).end_list().key("hit").flag(stops.hit());
  return {};
}

// Opens a template; "text" is its source.
Status open_template(Text& text, std::string_view program, JsonValue request) {
  text.program.assign(program);
  text.source = text_in(request["text"]);
  text.prompts.reset();
  return ChatTemplate::open(text.program, text.source, text_in(request["bos"]), text_in(request["eos"]), &text.chat);
}

// Messages, of which the fields beside role and content are values, and tools.
struct Turns {
  Status read(JsonValue request) {
    const JsonValue list = request["messages"], given = request["tools"];
    values.resize(list.size());
    tools.resize(given.size());
    for (size_t i = 0; i < tools.size(); ++i) EDGEDEC_TRY(plain_value(given.at(i), &tools[i]));
    for (size_t i = 0; i < list.size(); ++i) {
      texts.push_back({text_in(list.at(i)["role"]), text_in(list.at(i)["content"])});
      values[i] = PlainValue::object();
      for (size_t j = 0; j < list.at(i).size(); ++j) {
        const JsonValue field = list.at(i).at(j);
        PlainValue value;
        EDGEDEC_TRY(plain_value(field, &value));
        if (field.key() != "role" && field.key() != "content") values[i].set(field.key(), value);
      }
    }
    for (size_t i = 0; i < texts.size(); ++i) messages.push_back({texts[i].first, texts[i].second, &values[i]});
    return {};
  }
  std::vector<std::pair<std::string, std::string>> texts;
  std::vector<PlainValue> values, tools;
  std::vector<Message> messages;
};

Status render(Text& text, JsonValue request, JsonWriter* out) {
  Turns turns;
  std::string prompt;
  EDGEDEC_TRY(turns.read(request));
  const bool raw = request["raw"].flag().value_or(false), generation = request["generation_prompt"].flag().value_or(true);
  const Talk talk = {turns.messages, turns.tools};
  EDGEDEC_TRY(raw ? text.chat.render_values(talk, generation, &prompt) : text.chat.render(talk, generation, &prompt));
  out->key("text").text(prompt);
  return {};
}

// The abilities of a template with tools.
Status forms(Text& text, JsonWriter* out) {
  const ToolForms* found;
  EDGEDEC_TRY(text.chat.tool_forms(&found));
  out->key("declares").flag(found->declares).key("calls").flag(found->calls).key("text").flag(found->text);
  out->key("cut").flag(found->cut).key("family").text(found->family ? found->family->name : "");
  return {};
}

// Content and calls of a reply that comes in pieces, in the form of the family with this name.
Status calls(JsonValue request, JsonWriter* out) {
  Turns turns;
  EDGEDEC_TRY(turns.read(request));
  for (const CallFamily& family : call_families()) {
    if (family.name != text_in(request["family"]) || !family.call) continue;
    CallReader reader(family, turns.tools);
    out->key("content").begin_list();
    for (const std::string& piece : texts_in(request["pieces"])) out->text(reader.push(piece));
    out->text(reader.flush()).end_list().key("calls").begin_list();
    for (const ToolCall& call : reader.calls()) out->begin_list().text(call.name).text(call.arguments).end_list();
    out->end_list();
    return {};
  }
  return {Code::kUnsupported, "no such family"};
}

Status prompt(Text& text, JsonValue request, JsonWriter* out) {
  if (!text.prompts) text.prompts = std::make_unique<Prompts>(*text.tokenizer, text.source.empty() ? nullptr : &text.chat);
  if (request["take_back"].flag().value_or(false)) text.prompts->take_back();
  if (!request["seen"].missing()) text.prompts->remember(text_in(request["seen"]), ids_in(request["ids"]));
  Turns turns;
  Prompt found;
  EDGEDEC_TRY(turns.read(request));
  EDGEDEC_TRY(text.prompts->build({turns.messages, turns.tools}, &found));
  out->key("text").text(found.text);
  write_prompt_ids(found.ids, out);
  return {};
}

}  // namespace

// A tokenizer, or null with its error in *report; without a path, a place for templates alone.
EDGEDEC_EXPORT void* edgedec_probe_text_open(const char* path, int spm, int64_t bos, int* code) {
  auto text = std::make_unique<Text>();
  TokenizerInfo info;
  info.spm = spm != 0;
  info.bos_id = bos;
  info.add_bos = bos >= 0;
  const Status status = *path ? Tokenizer::open(path, info, &text->tokenizer) : Status();
  *code = static_cast<int>(status.code());
  return status.ok() ? text.release() : nullptr;
}

EDGEDEC_EXPORT void edgedec_probe_text_close(void* text) { delete static_cast<Text*>(text); }

// The answer to a request, whose "do" says what to do; `extra` are bytes beside it. Or the error.
EDGEDEC_EXPORT char* edgedec_probe_text(void* handle, const char* request, size_t size, const char* extra, size_t extra_size,
                                        size_t* out_size) {
  Text& text = *static_cast<Text*>(handle);
  Json json;
  if (!json.parse({request, size}, {64 << 20, 100, 8 << 20})) return reported({Code::kUsage, "no request"}, out_size);
  const JsonValue root = json.root();
  const std::string act = text_in(root["do"]);
  JsonWriter out;
  out.begin_object();
  const Status status = act == "encode"     ? encode(text, root, &out)
                        : act == "facts"    ? facts(text, root, &out)
                        : act == "stream"   ? stream(text, root, &out)
                        : act == "think"    ? think(root, &out)
                        : act == "stop"     ? stop(root, &out)
                        : act == "template" ? open_template(text, {extra, extra_size}, root)
                        : act == "render"   ? render(text, root, &out)
                        : act == "forms"    ? forms(text, &out)
                        : act == "calls"    ? calls(root, &out)
                        : act == "prompt"   ? prompt(text, root, &out)
                                            : Status(Code::kUsage, "no such request");
  out.end_object();
  return status.ok() ? copied(out.str(), out_size) : reported(status, out_size);
}

// The ids of bytes that need not be UTF-8, at most `room`; returns how many, or minus the code.
EDGEDEC_EXPORT int64_t edgedec_probe_text_encode(void* handle, const char* bytes, size_t size, int specials, int32_t* ids,
                                                 size_t room) {
  std::vector<int32_t> found;
  const Status status = static_cast<Text*>(handle)->tokenizer->encode({bytes, size}, specials != 0, &found);
  if (!status.ok()) return -static_cast<int64_t>(status.code());
  for (size_t i = 0; i < found.size() && i < room; ++i) ids[i] = found[i];
  return static_cast<int64_t>(found.size());
}
