#include "engine/text/chat_template.h"

#include "engine/text/template_renderer.h"

namespace edgedec::engine {

Status ChatTemplate::open(std::string_view program, std::string_view source, std::string_view bos, std::string_view eos,
                          ChatTemplate* made) {
  EDGEDEC_TRY(TemplateProgram::open(program, source, &made->program_));
  made->bos_ = bos;
  made->eos_ = eos;
  return {};
}

Status ChatTemplate::render(Span<const Message> messages, bool generation_prompt, std::string* prompt) const {
  TemplateRenderer renderer(program_, messages);
  renderer.set_messages();
  renderer.set("add_generation_prompt", Value::flag(generation_prompt));
  renderer.set("bos_token", Value::string(bos_));
  renderer.set("eos_token", Value::string(eos_));
  renderer.set("tools", Value::none());
  renderer.set("documents", Value::none());
  Value builtin = Value::of(Kind::kOpaque);
  builtin.number = 1;
  for (const char* name : {"raise_exception", "range", "strftime_now", "namespace", "dict", "cycler", "joiner"}) {
    renderer.set(name, builtin);
  }
  return renderer.render(prompt);
}

}  // namespace edgedec::engine
