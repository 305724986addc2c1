// Tools in chat templates: whether a template writes them, and in which form its model writes calls. edgedec/text/template_tools.py.
#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"
#include "engine/text/call_families.h"
#include "engine/text/template_renderer.h"

namespace edgedec::engine {

class ChatTemplate;

// Abilities of a template: it declares tools, writes calls, takes their arguments as text. `cut`: also arguments that are a text
// where they should be values. `family`: the form of its model's calls; null: one that is not known.
struct ToolForms {
  bool declares = false, calls = false, text = false, cut = false;
  const CallFamily* family = nullptr;

  // kUnsupported: the template would drop a part of the conversation.
  Status check(const Talk& talk) const;
};

// Finds them by rendering probes. kUnsupported: the template needs a construct that this engine does not know.
Status find_tool_forms(const ChatTemplate& chat, std::string_view source, ToolForms* forms);

// A conversation in the form that a template takes, with tools as it sees them. Copies of what the renderer reads.
class ToolTalk {
 public:
  // `forms`: null for a probe, which is rendered as it is.
  ToolTalk(const Talk& talk, const ToolForms* forms, std::string_view source);
  ToolTalk(const ToolTalk&) = delete;

  Talk talk() const { return {messages_, tools_}; }

 private:
  void ready(size_t at, const ToolForms& forms);
  void into_system_message();

  std::vector<std::string> contents_;
  std::vector<PlainValue> fields_, tools_;
  std::vector<Message> messages_;
};

// Whether a conversation has tools, or calls of them.
bool uses_tools(const Talk& talk);

}  // namespace edgedec::engine
