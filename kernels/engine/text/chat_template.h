// Renders a bundle's chat template: edgedec/text/template.py, by the program that export made of it.
#pragma once

#include <string>
#include <string_view>

#include "core/base/span.h"
#include "core/base/status.h"
#include "engine/text/template_program.h"
#include "engine/text/template_renderer.h"
#include "engine/text/thinking.h"

namespace edgedec::engine {

constexpr const char* kTemplateProgram = "chat_template.program";

// A prompt is Jinja's, or there is none: what the engine does not know is refused where a conversation reaches it.
class ChatTemplate {
 public:
  // `program` and `source` are the contents of the two files of a bundle, and `bos` and `eos` the texts of those tokens.
  // `program` begins at a multiple of 4 bytes and stays where it is. kBadFile: it is damaged, or another template's.
  static Status open(std::string_view program, std::string_view source, std::string_view bos, std::string_view eos,
                     ChatTemplate* made);

  // Writes the prompt for a conversation, whose texts are UTF-8. `tools` are as templates see them. kBadFile: the template fails, refuses the messages (in its own
  // words), or exceeds its limits. kUnsupported: it needs a construct that the engine does not know.
  Status render(const Talk& talk, bool generation_prompt, std::string* prompt) const;

  // The tags around the thinking part of a reply.
  ThinkingTags tags() const { return tags_; }

 private:
  TemplateProgram program_;
  std::string bos_, eos_;
  ThinkingTags tags_;
};

}  // namespace edgedec::engine
