// The values, weights and constants of a program that is being read, each with the sizes that it has to have.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/web/cpu_program.h"

namespace edgedec::engine {

struct CpuValue {
  std::string name;
  size_t width;
  CpuRows over;
  size_t node = 0;  // that writes it
  size_t last = 0;  // that reads it as the last one
};

class CpuValues {
 protected:
  static constexpr int64_t kMostSize = 1 << 20;  // of a vocabulary, and of what layers hand on

  CpuValues(JsonValue root, Span<const uint8_t> weights, Span<const uint8_t> shared, CpuProgram* program)
      : root_(root), weights_(weights), shared_(shared), program_(*program) {}

  static Status damaged(const std::string& why) {
    return {Code::kBadFile, "cpu.json is damaged: " + why, "export the model again"};
  }

  static std::string quoted(std::string_view text) { return "'" + std::string(text.substr(0, 40)) + "'"; }

  static std::string_view input(JsonValue json, size_t at) {
    const JsonValue in = json["in"];
    return at < in.size() ? in.at(at).text().value_or("") : "";
  }

  int find(std::string_view name) const {
    for (size_t at = values_.size(); at-- > 0;)
      if (values_[at].name == name) return static_cast<int>(at);
    return -1;
  }

  // A value of `width` floats (0: any) that the node reads; the first one says over which tokens it runs.
  Status value(JsonValue json, size_t at, size_t width, CpuNode* node, int* found) {
    *found = find(input(json, at));
    if (*found < 0) return damaged("a node reads what is not there");
    const CpuValue& value = values_[static_cast<size_t>(*found)];
    if (width && value.width != width) return damaged("a node reads values of another width");
    if (found == &node->in) node->over = node->from = value.over;
    else if (value.over != node->over && found != &node->rotary) return damaged("a node reads values of different tokens");
    return {};
  }

  Status maybe_value(JsonValue json, size_t at, size_t width, CpuNode* node, int* found) {
    return input(json, at).empty() ? Status() : value(json, at, width, node, found);
  }

  // A size of the node, at least 1.
  static Status size(JsonValue json, size_t* found) {
    const int64_t value = json.whole().value_or(0);
    if (value < 1 || value > kMostSize) return damaged("a node has an impossible size");
    *found = static_cast<size_t>(value);
    return {};
  }

  static float real(JsonValue json, float otherwise) { return static_cast<float>(json.number().value_or(otherwise)); }

  // Bytes of a tensor in weights.bin, its own or the target's; null: it is none, or not inside.
  const uint8_t* tensor(std::string_view name, uint64_t bytes) const {
    const JsonValue own = root_["tensors"][name], place = own.size() ? own : root_["shared"][name];
    const Span<const uint8_t> all = own.size() ? weights_ : shared_;
    if (place.size() != 2) return nullptr;
    const int64_t offset = place.at(0).whole().value_or(-1), size = place.at(1).whole().value_or(-1);
    const bool inside = offset >= 0 && size >= 0 && static_cast<uint64_t>(offset) <= all.size() &&
                        static_cast<uint64_t>(size) <= all.size() - static_cast<uint64_t>(offset);
    return inside && static_cast<uint64_t>(size) == bytes ? all.data() + offset : nullptr;
  }

  Status weight(std::string_view name, std::string_view format, int64_t rows, size_t cols, CpuNode* node) {
    Weight made;
    made.format = format_by_name(std::string(format).c_str());
    if (made.format == FormatId::kCount || rows < 1 || rows > kMostSize) return damaged("a matrix has no known format");
    made.rows = static_cast<int>(rows);
    made.cols = static_cast<int>(cols);
    made.data = tensor(name, made.bytes());
    if (!made.data) return damaged("the weights of " + quoted(name) + " have another size");
    node->weights.push_back(made);
    return {};
  }

  // `count` floats out of the file or out of the program itself.
  Status floats(std::string_view name, size_t count, const float** found) {
    const JsonValue bits = root_["constants"][name];
    if (bits.missing()) {
      const uint8_t* bytes = tensor(name, count * sizeof(float));
      if (!bytes || reinterpret_cast<uintptr_t>(bytes) % alignof(float)) return damaged(quoted(name) + " is not there");
      *found = reinterpret_cast<const float*>(bytes);
      return {};
    }
    if (bits.size() != count) return damaged(quoted(name) + " has another size");
    std::vector<float> made(count);
    for (size_t at = 0; at < count; ++at) {
      const auto one = static_cast<uint32_t>(bits.at(at).whole().value_or(0));
      std::memcpy(&made[at], &one, sizeof one);
    }
    program_.constants.push_back(std::move(made));
    *found = program_.constants.back().data();
    return {};
  }

  Status maybe_floats(std::string_view name, size_t count, const float** found) {
    return name.empty() ? Status() : floats(name, count, found);
  }

  JsonValue root_;
  Span<const uint8_t> weights_, shared_;
  CpuProgram& program_;
  std::vector<CpuValue> values_;
};

}  // namespace edgedec::engine
