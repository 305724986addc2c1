#include "engine/text/chat_template.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/capi.h"

namespace edgedec::engine {

Status ChatTemplate::open(std::string_view program, std::string_view source, std::string_view bos, std::string_view eos,
                          ChatTemplate* made) {
  EDGEDEC_TRY(TemplateProgram::open(program, source, &made->program_));
  made->bos_ = bos;
  made->eos_ = eos;
  made->source_ = source;
  made->forms_.reset();
  made->tags_ = thinking_tags(source);
  return {};
}

Status ChatTemplate::render(const Talk& talk, bool generation_prompt, std::string* prompt) const {
  if (!uses_tools(talk)) return render_values(talk, generation_prompt, prompt);
  const ToolForms* forms;
  EDGEDEC_TRY(tool_forms(&forms));
  EDGEDEC_TRY(forms->check(talk));
  return render_values(ToolTalk(talk, forms, source_).talk(), generation_prompt, prompt);
}

Status ChatTemplate::render_probe(const Talk& talk, std::string* prompt) const {
  return render_values(ToolTalk(talk, nullptr, source_).talk(), true, prompt);
}

Status ChatTemplate::tool_forms(const ToolForms** forms) const {
  if (!forms_) {
    ToolForms found;
    EDGEDEC_TRY(find_tool_forms(*this, source_, &found));
    forms_ = found;
  }
  *forms = &*forms_;
  return {};
}

Status ChatTemplate::render_values(const Talk& talk, bool generation_prompt, std::string* prompt) const {
  TemplateRenderer renderer(program_, talk);
  renderer.set_talk();
  renderer.set("add_generation_prompt", Value::flag(generation_prompt));
  renderer.set("bos_token", Value::string(bos_));
  renderer.set("eos_token", Value::string(eos_));
  renderer.set("documents", Value::none());
  Value builtin = Value::of(Kind::kOpaque);
  builtin.number = 1;
  for (const char* name : {"raise_exception", "range", "strftime_now", "namespace", "dict", "cycler", "joiner"}) {
    renderer.set(name, builtin);
  }
  return renderer.render(prompt);
}

}  // namespace edgedec::engine

// The prompt of a conversation, which edgedec_free frees; null where ChatTemplate has none. `texts` are the program, the
// template, the texts of its first and last token, and then role and content of each message.
EDGEDEC_EXPORT char* edgedec_render_template(const char* const* texts, const size_t* sizes, size_t count, int generation_prompt,
                                             size_t* size) {
  using namespace edgedec::engine;
  const auto text = [&](size_t at) { return std::string_view(texts[at], sizes[at]); };
  ChatTemplate chat;
  if (count < 4 || !ChatTemplate::open(text(0), text(1), text(2), text(3), &chat).ok()) return nullptr;
  std::vector<Message> messages;
  for (size_t at = 4; at + 1 < count; at += 2) messages.push_back({text(at), text(at + 1)});
  std::string prompt;
  if (!chat.render({messages, {}}, generation_prompt != 0, &prompt).ok()) return nullptr;
  auto* copy = static_cast<char*>(std::malloc(prompt.size() + 1));
  if (copy) std::memcpy(copy, prompt.data(), prompt.size());
  *size = prompt.size();
  return copy;
}
