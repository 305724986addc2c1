// Position-keyed noise: pure functions of seed, position and id.
//
// The token at a position is the argmin of E(v) / p(v), E(v) = -log U(v) (the "exponential race", or Gumbel-max trick; p need
// not be normalised). It has exactly the distribution p and depends on p, seed and position alone: not on how many tokens
// were drawn before, nor on whether the position was reached by speculation.
//
// U comes from a counter-based generator: the 64-bit finaliser of SplitMix64 (Steele, Lea, Flood 2014, with the constants of
// Stafford's variant 13) over a counter made from the id and a key made from seed and position, then MurmurHash3's finaliser
// under a second key. The upper 52 bits, offset by one half, give U in [2^-53, 1 - 2^-53].
#pragma once

#include <cstdint>

namespace edgedec::engine {

// The noise of one position.
class Noise {
 public:
  Noise(uint64_t seed, int64_t position) {
    first_ = mix(mix(seed + kGolden, kStafford) + (static_cast<uint64_t>(position) + 1) * kGolden, kStafford);
    second_ = mix(~first_, kStafford);  // not from the sequence of first_: that has the counters of ids
  }

  // 64 well mixed bits for an id.
  uint64_t bits(int64_t id) const {
    return mix(mix(first_ + static_cast<uint64_t>(id) * kGolden, kStafford) ^ second_, kMurmur);
  }

  // A number in the open interval (0, 1).
  double uniform(int64_t id) const { return (static_cast<double>(bits(id) >> 12) + 0.5) * 0x1p-52; }

  // Standard exponential noise: -log of uniform.
  double exponential(int64_t id) const;

 private:
  struct Constants {
    int a;
    uint64_t first;
    int b;
    uint64_t second;
    int c;
  };
  static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
  static constexpr Constants kStafford{30, 0xBF58476D1CE4E5B9, 27, 0x94D049BB133111EB, 31};
  static constexpr Constants kMurmur{33, 0xFF51AFD7ED558CCD, 33, 0xC4CEB9FE1A85EC53, 33};

  static uint64_t mix(uint64_t x, const Constants& by) {
    x = (x ^ (x >> by.a)) * by.first;
    x = (x ^ (x >> by.b)) * by.second;
    return x ^ (x >> by.c);
  }

  uint64_t first_, second_;
};

// The least value of the upper 52 bits of Noise::bits with which `uniform` is greater than `floor`; 2^52: none is.
uint64_t least_bits_above(double floor);

}  // namespace edgedec::engine
