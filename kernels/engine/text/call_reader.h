// A reply in which calls of tools are read apart from its text: edgedec/text/reply_reader.py.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "engine/text/call_families.h"
#include "engine/text/thinking.h"

namespace edgedec::engine {

class CallReader {
 public:
  // Both live longer.
  CallReader(const CallFamily& family, Span<const PlainValue> tools) : reading_{&scanner_, tools}, parser_(family) {}
  CallReader(const CallReader&) = delete;

  // Adds text of the answer; returns the content that is certain now.
  std::string push(std::string_view text);
  // Ends the reply; returns the content that was held back.
  std::string flush();
  // Content that was given out when an earlier part of the reply ended; it is not given out again.
  void was_told(size_t bytes) { told_ = bytes; }

  const std::vector<ToolCall>& calls() const { return scanner_.calls(); }

 private:
  std::string read();

  CallScanner scanner_;
  CallReading reading_;
  CallParser parser_;
  size_t looked_ = 0;  // at so much text that waits
  size_t told_ = 0;
};

// A whole reply: its thinking part, its content, and the calls that it asks for.
struct WholeReply {
  std::string thought, content;
  std::vector<ToolCall> calls;
};

// Reads the text of a reply, in which tags are spelled. `prompt`: its end tells whether the reply begins in its thinking part.
WholeReply read_whole(std::string_view text, std::string_view prompt, ThinkingTags tags, const CallFamily& family,
                      Span<const PlainValue> tools);

}  // namespace edgedec::engine
