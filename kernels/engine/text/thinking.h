// Tells the thinking part of a reply from its answer, while the reply is streamed: edgedec/text/thinking.py.
#pragma once

#include <string>
#include <string_view>

namespace edgedec::engine {

struct ThinkingTags {
  std::string_view begin, end;
};

// The tags around the thinking part that a chat template names; the usual ones for none.
ThinkingTags thinking_tags(std::string_view chat_template);

// Whether a reply to a prompt begins in its thinking part.
bool begins_thinking(std::string_view prompt, const ThinkingTags& tags);

class ThinkingSplitter {
 public:
  struct Parts {
    std::string thinking, answer;
  };

  // `begun`: the reply begins inside of its thinking part.
  ThinkingSplitter(bool begun, ThinkingTags tags) : tags_(tags), thinking_(begun), undecided_(!begun) {}

  // Adds a piece; returns the thinking and the answer that are certain now.
  Parts push(std::string_view text);

  // Ends the stream; returns what was held back.
  Parts flush();

  bool thinking() const { return thinking_; }
  // Text that may begin a tag.
  const std::string& held() const { return held_; }

 private:
  Parts inside();
  std::string answer(std::string_view text);
  std::string release(size_t length);

  ThinkingTags tags_;
  bool thinking_, undecided_;
  bool drops_newlines_ = false;
  std::string held_;
};

}  // namespace edgedec::engine
