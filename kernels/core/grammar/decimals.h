// Decimal numbers between bounds, digit by digit: whole digits, and digits behind a point. There is no exponent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace edgedec::engine {

// A bound of a number; `open`: it is no such number itself.
struct Bound {
  double value = 0.0;
  bool open = false;
};

// The magnitudes between two bounds of at most 64 bits.
class Magnitudes {
 public:
  // A place behind the digits of a fraction, as far as they matter.
  struct Fraction {
    uint32_t digits = 0;
    bool at_least = false, at_most = false;  // whether the digits so far are those of the bound
  };

  // No `most`: they may be as large as wanted.
  Magnitudes(const Bound& least, const std::optional<Bound>& most);

  bool none() const { return none_; }
  // Whole digits as far as they matter.
  uint64_t kept(uint64_t whole) const { return unbounded_ && whole > least_.whole ? least_.whole + 1 : whole; }
  // Whether more whole digits may follow `whole`, whether a point may, and whether the number may end.
  bool begins(uint64_t whole) const;
  bool takes_point(uint64_t whole) const { return !none_ && whole >= least_.whole && whole <= most_whole_; }
  bool ends(uint64_t whole) const { return takes_point(whole) && (whole > least_.whole || reached(0)); }

  // The place behind the point, and behind a digit; false: it may not come next.
  Fraction point(uint64_t whole) const { return {0, whole == least_.whole, !unbounded_ && whole == most_.whole}; }
  bool digit(uint32_t digit, Fraction* place) const;
  bool ends(const Fraction& place) const { return !place.at_least || reached(place.digits); }

 private:
  struct Digits {
    uint64_t whole = 0;
    std::string fraction;  // without zeros at its end
    bool open = false;

    explicit Digits(const Bound& bound);
    uint32_t at(uint32_t place) const { return place < fraction.size() ? static_cast<uint32_t>(fraction[place] - '0') : 0; }
  };

  // Whether a number of the same digits as the lower bound, so many of them behind the point, is not below it.
  bool reached(uint32_t digits) const { return !least_.open && digits >= least_.fraction.size(); }

  Digits least_, most_;
  bool unbounded_, none_;
  uint64_t most_whole_;  // the largest whole part
};

}  // namespace edgedec::engine
