#include "core/grammar/decimals.h"

#include <algorithm>
#include <cstdlib>

#include "core/grammar/literals.h"
#include "core/grammar/text_steps.h"

namespace edgedec::engine {

Magnitudes::Digits::Digits(const Bound& bound) : open(bound.open) {
  const std::string text = plain_number(bound.value);
  const size_t point = std::min(text.find('.'), text.size());
  whole = std::strtoull(text.substr(0, point).c_str(), nullptr, 10);
  if (point < text.size()) fraction = text.substr(point + 1);
}

Magnitudes::Magnitudes(const Bound& least, const std::optional<Bound>& most)
    : least_(least), most_(most.value_or(Bound())), unbounded_(!most), none_(false), most_whole_(UINT64_MAX) {
  if (unbounded_) return;
  none_ = least.value > most->value || (least.value == most->value && (least.open || most->open));
  const bool below = most_.open && most_.fraction.empty();  // the bound's own whole part is not reached
  most_whole_ = most_.whole - (below && !none_);
}

bool Magnitudes::begins(uint64_t whole) const {
  if (none_ || !whole) return false;
  if (unbounded_) return true;
  return whole <= most_whole_ / 10 && may_begin(10 * whole, 10 * whole + 9, least_.whole, most_whole_);
}

bool Magnitudes::digit(uint32_t digit, Fraction* place) const {
  const uint32_t least = least_.at(place->digits), most = most_.at(place->digits);
  if ((place->at_least && digit < least) || (place->at_most && digit > most)) return false;
  place->at_least = place->at_least && digit == least;
  place->at_most = place->at_most && digit == most;
  const size_t longest = std::max(least_.fraction.size(), most_.fraction.size());
  place->digits = place->at_least || place->at_most ? std::min(place->digits + 1, static_cast<uint32_t>(longest)) : 0;
  return !place->at_most || !most_.open || place->digits < most_.fraction.size();
}

}  // namespace edgedec::engine
