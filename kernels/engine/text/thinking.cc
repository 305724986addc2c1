#include "engine/text/thinking.h"

#include "engine/text/begins.h"
#include "engine/text/white_space.h"

namespace edgedec::engine {
namespace {

constexpr ThinkingTags kTags[] = {
    {"<|channel>thought", "<channel|>"},  // Gemma 4
    {"[THINK]", "[/THINK]"},              // Magistral
    {"<think>", "</think>"},
};

}  // namespace

ThinkingTags thinking_tags(std::string_view chat_template) {
  for (const ThinkingTags& tags : kTags) {
    if (chat_template.find(tags.end) != chat_template.npos) return tags;
  }
  return kTags[2];
}

bool begins_thinking(std::string_view prompt, const ThinkingTags& tags) {
  prompt = without_space_at_end(prompt);
  return prompt.size() >= tags.begin.size() && prompt.substr(prompt.size() - tags.begin.size()) == tags.begin;
}

ThinkingSplitter::Parts ThinkingSplitter::push(std::string_view text) {
  if (!thinking_ && !undecided_) return {"", answer(text)};
  held_.append(text);
  if (undecided_) {
    const std::string_view start = without_space_in_front(held_);
    if (start.size() < tags_.begin.size() && begins(tags_.begin, start)) return {};
    undecided_ = false;
    if (!begins(start, tags_.begin)) return {"", release(held_.size())};
    thinking_ = true;
    held_ = std::string(start.substr(tags_.begin.size()));
  }
  return inside();
}

ThinkingSplitter::Parts ThinkingSplitter::flush() {
  std::string rest = release(held_.size());
  return thinking_ ? Parts{std::move(rest), ""} : Parts{"", std::move(rest)};
}

ThinkingSplitter::Parts ThinkingSplitter::inside() {
  const size_t at = held_.find(tags_.end);
  if (at != held_.npos) {
    std::string thought = release(at);
    thinking_ = false;
    drops_newlines_ = true;
    const std::string rest = release(held_.size());
    return {std::move(thought), answer(std::string_view(rest).substr(tags_.end.size()))};
  }
  size_t tail = tags_.end.size() - 1;
  while (tail && (held_.size() < tail || held_.compare(held_.size() - tail, tail, tags_.end.substr(0, tail)))) --tail;
  return {release(held_.size() - tail), ""};
}

std::string ThinkingSplitter::answer(std::string_view text) {
  if (drops_newlines_) {
    while (!text.empty() && text[0] == '\n') text.remove_prefix(1);
    drops_newlines_ = text.empty();
  }
  return std::string(text);
}

std::string ThinkingSplitter::release(size_t length) {
  std::string released = held_.substr(0, length);
  held_.erase(0, length);
  return released;
}

}  // namespace edgedec::engine
