// Decimal texts and doubles, by whole numbers of any size: slow, and right to the last bit.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/format.h"
#include "core/base/json.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostDigits = 800;  // more cannot decide how a number is rounded, but by being there

// A whole number from 0 on, in words of 32 bits, the lowest first.
class Big {
 public:
  explicit Big(uint64_t value = 0) {
    for (; value; value >>= 32) words_.push_back(static_cast<uint32_t>(value));
  }
  bool zero() const { return words_.empty(); }
  int bits() const {
    int count = 32 * static_cast<int>(words_.size());
    for (uint32_t top = zero() ? 1u << 31 : words_.back(); !(top & 1u << 31); top <<= 1) --count;
    return count;
  }
  void times(uint32_t factor, uint32_t plus = 0) {
    uint64_t carry = plus;
    for (uint32_t& word : words_) {
      carry += uint64_t{word} * factor;
      word = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    if (carry) words_.push_back(static_cast<uint32_t>(carry));
  }
  void power(uint32_t base, int exponent) {
    for (; exponent > 0; --exponent) times(base);
  }
  void shift(int by) {
    if (zero() || by <= 0) return;
    if (by % 32) times(1u << by % 32);
    words_.insert(words_.begin(), static_cast<size_t>(by / 32), 0);
  }
  // Divides by a small number; returns what is left.
  uint32_t divide(uint32_t by) {
    uint64_t left = 0;
    for (size_t i = words_.size(); i-- > 0;) {
      left = left << 32 | words_[i];
      words_[i] = static_cast<uint32_t>(left / by);
      left %= by;
    }
    trim();
    return static_cast<uint32_t>(left);
  }
  bool below(const Big& other) const {
    if (words_.size() != other.words_.size()) return words_.size() < other.words_.size();
    return std::lexicographical_compare(words_.rbegin(), words_.rend(), other.words_.rbegin(), other.words_.rend());
  }
  void subtract(const Big& other) {
    int64_t borrow = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      borrow += int64_t{words_[i]} - (i < other.words_.size() ? other.words_[i] : 0);
      words_[i] = static_cast<uint32_t>(borrow);
      borrow >>= 32;
    }
    trim();
  }

 private:
  void trim() {
    while (!words_.empty() && !words_.back()) words_.pop_back();
  }
  std::vector<uint32_t> words_;
};

// digits * 10^exponent, a little more where `more`; rounded to the nearest double, ties to even.
double rounded(const std::string& digits, int exponent, bool more) {
  Big above, below(1);
  for (char digit : digits) above.times(10, static_cast<uint32_t>(digit - '0'));
  above.power(10, exponent);
  below.power(10, -exponent);
  const int scale = 55 - (above.bits() - below.bits());  // the quotient has 55 or 56 bits
  above.shift(scale);
  below.shift(-scale);
  below.shift(56);
  uint64_t quotient = 0;
  for (int bit = 56; bit >= 0; --bit) {
    // `below` is the divisor times 2^56, and `above` doubles in place of halving it.
    const bool one = !above.below(below);
    if (one) above.subtract(below);
    quotient = quotient << 1 | one;
    above.shift(1);
  }
  more = more || !above.zero();
  int bits = 0;
  while (bits < 64 && quotient >> bits) ++bits;
  const int top = bits - 1 - scale;  // the exponent of the highest bit
  const int precision = std::min(53, 53 + top + 1022);
  if (precision < 0) return 0.0;
  const int drop = bits - precision;
  uint64_t mantissa = quotient >> drop;
  const uint64_t left = quotient & ((uint64_t{1} << drop) - 1), half = uint64_t{1} << (drop - 1);
  if (left > half || (left == half && (more || mantissa & 1))) ++mantissa;
  return std::ldexp(static_cast<double>(mantissa), drop - scale);
}

// The digits of a positive double, exactly: 0.DIGITS * 10^*point.
std::string exact_digits(double value, int* point) {
  int exponent;
  const auto mantissa = static_cast<uint64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  exponent -= 53;
  Big number(mantissa);
  number.shift(exponent);
  number.power(5, -exponent);
  std::string digits;
  while (!number.zero()) digits += static_cast<char>('0' + number.divide(10));
  std::reverse(digits.begin(), digits.end());
  *point = static_cast<int>(digits.size()) + std::min(exponent, 0);
  return digits;
}

// The shortest digits that read as `value`; of those the nearest to it.
std::string shortest_digits(double value, int* point) {
  const std::string exact = exact_digits(value, point);
  for (size_t count = 1; count < exact.size(); ++count) {
    const std::string low = exact.substr(0, count);
    std::string high = low;
    size_t at = count;
    while (at > 0 && high[at - 1] == '9') high[--at] = '0';
    const bool carried = at == 0;
    if (carried) high.insert(0, 1, '1');
    else ++high[at - 1];
    const int exponent = *point - static_cast<int>(count);
    const bool low_fits = rounded(low, exponent, false) == value, high_fits = rounded(high, exponent, false) == value;
    if (!low_fits && !high_fits) continue;
    const std::string rest = exact.substr(count), half = "5";
    const int side = rest.compare(0, rest.find_last_not_of('0') + 1, half);
    const bool up = high_fits && (!low_fits || side > 0 || (side == 0 && (low.back() - '0') % 2));
    if (!up) return low;
    *point += carried;
    return high;
  }
  return exact;
}

}  // namespace

std::optional<double> parse_real(std::string_view text) {
  const bool negative = !text.empty() && text[0] == '-';
  size_t at = negative;
  std::string digits;
  int64_t exponent = 0;
  bool any = false, point = false, more = false;
  for (; at < text.size() && ((text[at] >= '0' && text[at] <= '9') || (text[at] == '.' && !point)); ++at) {
    if (text[at] == '.') {
      point = true;
      continue;
    }
    any = true;
    exponent -= point;
    if (digits.size() >= kMostDigits) {
      more = more || text[at] != '0';
      ++exponent;
    } else if (!digits.empty() || text[at] != '0') {
      digits += text[at];
    }
  }
  if (at < text.size() && (text[at] | 32) == 'e') {
    const bool down = ++at < text.size() && text[at] == '-';
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    int64_t stated = 0;
    if (at == text.size()) return {};
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
      stated = std::min<int64_t>(stated * 10 + (text[at] - '0'), 1000000);
    exponent += down ? -stated : stated;
  }
  if (!any || at != text.size()) return {};
  const int64_t size = static_cast<int64_t>(digits.size()) + exponent;
  double value = 0.0;
  if (!digits.empty() && size > 310) value = std::numeric_limits<double>::infinity();
  else if (!digits.empty() && size >= -330) value = rounded(digits, static_cast<int>(exponent), more);
  return negative ? -value : value;
}

std::string real_text(double value) {
  if (std::isnan(value)) return "NaN";
  const std::string sign = std::signbit(value) ? "-" : "";
  value = std::fabs(value);
  if (std::isinf(value)) return sign + "Infinity";
  if (value == 0.0) return sign + "0.0";
  int point;
  std::string digits = shortest_digits(value, &point);
  digits.resize(digits.find_last_not_of('0') + 1);
  const int count = static_cast<int>(digits.size());
  if (point > 16 || point < -3) {
    const int exponent = point - 1;
    const std::string size = decimal(std::abs(exponent));
    const std::string rest = count > 1 ? "." + digits.substr(1) : "";
    return sign + digits[0] + rest + "e" + (exponent < 0 ? "-" : "+") + (size.size() < 2 ? "0" : "") + size;
  }
  if (point <= 0) return sign + "0." + std::string(static_cast<size_t>(-point), '0') + digits;
  if (point >= count) return sign + digits + std::string(static_cast<size_t>(point - count), '0') + ".0";
  return sign + digits.substr(0, static_cast<size_t>(point)) + "." + digits.substr(static_cast<size_t>(point));
}

}  // namespace edgedec::engine
