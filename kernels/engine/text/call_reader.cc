#include "engine/text/call_reader.h"

#include <algorithm>
namespace edgedec::engine {
namespace {

constexpr size_t kLookPart = 32;  // a call that waits is read again once one part in so many has come

}  // namespace

std::string CallReader::push(std::string_view text) {
  scanner_.add(text);
  if (text.empty() || scanner_.pending() < looked_ + looked_ / kLookPart) return {};
  return read();
}

std::string CallReader::flush() {
  scanner_.end();
  return read();
}

std::string CallReader::read() {
  parser_.run(reading_);
  looked_ = scanner_.pending();
  std::string content = scanner_.take_content();
  const size_t again = std::min(told_, content.size());
  told_ -= again;
  return content.substr(again);
}

WholeReply read_whole(std::string_view text, std::string_view prompt, ThinkingTags tags, const CallFamily& family,
                      Span<const PlainValue> tools) {
  ThinkingSplitter splitter(begins_thinking(prompt, tags), tags);
  CallReader reader(family, tools);
  WholeReply found;
  for (const ThinkingSplitter::Parts& parts : {splitter.push(text), splitter.flush()}) {
    found.thought += parts.thinking;
    found.content += reader.push(parts.answer);
  }
  found.content += reader.flush();
  found.thought = stripped(found.thought);
  found.calls = reader.calls();
  for (ToolCall& call : found.calls) {  // half of a pair of surrogates is no text
    call.name = whole_text(call.name);
    call.arguments = whole_text(call.arguments);
  }
  return found;
}

}  // namespace edgedec::engine
