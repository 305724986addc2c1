// Messages of a conversation and tools, in the forms of OpenAI's chat API: edgedec/session/message.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/status.h"
#include "engine/text/call_reader.h"
#include "engine/text/plain_value.h"

namespace edgedec::engine {

// `fields`: an object with those that a template gets beside role and content, such as tool_calls; kNull: there are none.
struct ChatMessage {
  std::string role, content;
  PlainValue fields = {};

  bool has(std::string_view name) const { return fields.find(name) != nullptr; }
};
using ChatMessages = std::vector<ChatMessage>;

// Reads a list of messages from JSON. kUsage: it is none, and the message says what is wrong.
Status read_chat_messages(JsonValue list, ChatMessages* messages);
Status read_chat_messages(std::string_view text, ChatMessages* messages);
// Writes a message in the form in which it is read.
void write_message(const ChatMessage& message, JsonWriter* out);

// Reads the tools that a conversation may call. kUsage: they are none; kUnsupported: one of them is strict.
Status read_tools(std::string_view text, std::vector<PlainValue>* tools);

// A reply as a message. `first`: the number in the id of its first call.
ChatMessage reply_message(const WholeReply& reply, int64_t first);
// The number of the first call after all of the conversation.
int64_t first_call(const ChatMessages& messages);
// The id of a call: nine letters and digits, as Mistral's templates demand.
std::string call_id(int64_t number);

}  // namespace edgedec::engine
