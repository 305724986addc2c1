// SHA-256 (FIPS 180-4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace edgedec::engine {

class Sha256 {
 public:
  void add(const void* data, size_t size);
  void add(std::string_view text) { add(text.data(), text.size()); }
  // Ends the input; returns the hash in lower-case hexadecimal digits.
  std::string hex();

 private:
  void block(const uint8_t* data);

  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t waiting_[64];
  size_t count_ = 0;  // bytes waiting
  uint64_t total_ = 0;
};

std::string sha256_of(std::string_view text);

}  // namespace edgedec::engine
