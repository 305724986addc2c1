// Renders a bundle's chat template: edgedec/text/template.py, by the program that export made of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/span.h"
#include "core/base/status.h"
#include "engine/text/template_program.h"
#include "engine/text/template_renderer.h"
#include "engine/text/thinking.h"
#include "engine/text/tool_forms.h"

namespace edgedec::engine {

constexpr const char* kTemplateProgram = "chat_template.program";

// A prompt is Jinja's, or there is none: what the engine does not know is refused where a conversation reaches it.
class ChatTemplate {
 public:
  // `program` and `source` are the contents of the two files of a bundle, and `bos` and `eos` the texts of those tokens.
  // `program` begins at a multiple of 4 bytes and stays where it is. kBadFile: it is damaged, or another template's.
  static Status open(std::string_view program, std::string_view source, std::string_view bos, std::string_view eos,
                     ChatTemplate* made);

  // Writes the prompt for a conversation, whose texts are UTF-8. Tools, calls and results are in OpenAI's forms, but arguments,
  // which are values where they can be. kBadFile: the template fails, refuses the messages (in its own
  // words), or exceeds its limits. kUnsupported: it needs a construct that the engine does not know.
  Status render(const Talk& talk, bool generation_prompt, std::string* prompt) const;

  // Writes a conversation as it stands, with tools as templates see them. Templates are probed with it.
  Status render_probe(const Talk& talk, std::string* prompt) const;
  Status render_values(const Talk& talk, bool generation_prompt, std::string* prompt) const;
  // Its abilities with tools, found by probes at first use.
  Status tool_forms(const ToolForms** forms) const;

  // The tags around the thinking part of a reply.
  ThinkingTags tags() const { return tags_; }

 private:
  TemplateProgram program_;
  std::string bos_, eos_, source_;
  mutable std::optional<ToolForms> forms_;
  ThinkingTags tags_;
};

}  // namespace edgedec::engine
