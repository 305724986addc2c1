// The wire format of protobuf: field numbers with their values, integers or the bytes of anything longer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace edgedec::wire {

inline constexpr const char* kNoModel = "it is no ONNX model";
inline constexpr const char* kCut = "it is cut short";

// The fields of a message, one after the other.
class Fields {
 public:
  explicit Fields(std::string_view message) : left_(message) {}

  // Reads the next field. False at the end, and where `wrong` says why.
  bool next() {
    if (left_.empty() || wrong) return false;
    const char* first = left_.data();
    uint64_t key = 0;
    if (!varint(&key)) return false;
    number = key >> 3;
    const uint64_t type = key & 7;
    is_bytes = type != 0;
    if (type == 0 ? !varint(&value) : !content(type)) return false;
    whole = {first, static_cast<size_t>(left_.data() - first)};
    return true;
  }

  uint64_t number = 0, value = 0;
  bool is_bytes = false;
  std::string_view bytes;
  std::string_view whole;  // the field as it lies in the message
  const char* wrong = nullptr;

  // Reads an unsigned number of at most 64 bits.
  bool varint(uint64_t* found) {
    *found = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (left_.empty()) return fail(kCut);
      const auto byte = static_cast<uint8_t>(left_[0]);
      left_.remove_prefix(1);
      *found |= shift < 64 ? static_cast<uint64_t>(byte & 0x7F) << shift : 0;
      if (byte < 0x80) return true;
    }
    return fail(kNoModel);
  }
  bool empty() const { return left_.empty(); }

 private:
  bool content(uint64_t type) {
    uint64_t length = type == 1 ? 8 : 4;
    if (type == 2 ? !varint(&length) : type != 1 && type != 5) return fail(wrong ? wrong : kNoModel);
    if (length > left_.size()) return fail(kCut);
    bytes = left_.substr(0, length);
    left_.remove_prefix(length);
    return true;
  }

  bool fail(const char* why) {
    wrong = why;
    return false;
  }

  std::string_view left_;
};

// A message of protobuf, as it is written.
class Message {
 public:
  Message& add(uint64_t field, std::string_view bytes) {
    varint(field << 3 | 2);
    varint(bytes.size());
    text_.append(bytes);
    return *this;
  }
  Message& add(uint64_t field, uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  Message& copy(std::string_view whole) {
    text_.append(whole);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void varint(uint64_t left) {
    for (; left >= 0x80; left >>= 7) text_.push_back(static_cast<char>(left | 0x80));
    text_.push_back(static_cast<char>(left));
  }

  std::string text_;
};

}  // namespace edgedec::wire
