// Places within rules, and the way from one to the next over a byte.
#pragma once

#include <cstdint>
#include <vector>

#include "core/grammar/hash_index.h"
#include "core/grammar/rules.h"
#include "core/grammar/text_steps.h"

namespace edgedec::engine {

// A place in a rule. `stack`: where it goes on behind that rule. The meaning of `phase` and `at` is that of the rule's kind.
// Behind the whole text the rule is kNoRule.
struct Place {
  RuleId rule = kNoRule;
  uint32_t stack = 0, phase = 0;
  int64_t at = 0;

  bool operator==(const Place& other) const {
    return rule == other.rule && stack == other.stack && phase == other.phase && at == other.at;
  }
  bool operator<(const Place& other) const {
    if (rule != other.rule) return rule < other.rule;
    if (stack != other.stack) return stack < other.stack;
    return phase != other.phase ? phase < other.phase : at < other.at;
  }
};

class Places {
 public:
  // Values that may be nested in each other. What needs more is not begun.
  static constexpr uint32_t kMostNesting = 256;

  // `rules` live longer.
  explicit Places(const Rules& rules) : rules_(rules) { clear(); }

  // Adds the places that `byte` leads to from the beginning of the text, and from a place.
  void begin(uint8_t byte, std::vector<Place>* found);
  void step(const Place& from, uint8_t byte, std::vector<Place>* found);

  size_t frames() const { return frames_.size(); }
  // Forgets all stacks but those of `places`, and gives these their new numbers.
  void keep(std::vector<Place>* places);

 private:
  // The place to go on from behind a nested value, and the stack below it.
  struct Frame {
    Place back;
    uint32_t depth = 0;
  };

  void clear();
  uint32_t push(const Place& back);
  void put(const Place& place) { found_->push_back(place); }
  void leave(uint32_t stack);
  bool fits(uint32_t stack, RuleId rule) const {
    return rule != kNoRule && frames_[stack].depth + 1 + rules_[rule].height <= kMostNesting;
  }

  void enter(RuleId id, uint32_t stack, uint8_t byte);
  void enter_one(RuleId id, uint32_t stack, uint8_t byte);
  void literal(const Place& from, uint8_t byte);
  void quoted(const Place& from, uint8_t byte);
  void string(const Place& from, uint8_t byte);
  void pattern(const Place& from, uint8_t byte);
  void integer(const Place& from, uint8_t byte);
  void digit(Place at, uint64_t value);
  void number(const Place& at, NumberPhase phase);
  void decimal(const Place& from, uint8_t byte);
  void whole_digits(Place at, uint64_t whole);
  bool gap(const Place& from, uint8_t byte);
  void value(const Place& from, RuleId rule, const Place& back, uint8_t byte);
  RuleId item(const Rule& rule, int64_t count) const;
  void array(const Place& from, uint8_t byte);
  void object(const Place& from, uint8_t byte);
  bool keys(const Place& from, uint8_t byte);
  void other_key(const Place& from, uint8_t byte);

  const Rules& rules_;
  std::vector<Frame> frames_;  // the first one stands for the bottom
  HashIndex index_;
  std::vector<Place>* found_ = nullptr;
};

}  // namespace edgedec::engine
