#include "engine/web/cpu_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/model/state_memory.h"
#include "head_topk/head_topk.h"

namespace edgedec::engine {
namespace {

constexpr JsonLimits kProgramLimits = {size_t{8} << 20, 16, size_t{1} << 19};
constexpr int64_t kMostSize = 1 << 20;  // of a vocabulary, and of what layers hand on

Status damaged(const std::string& why) {
  return {Code::kBadFile, "cpu.json is damaged: " + why, "export the model again"};
}

struct ProgramValue {
  std::string name;
  size_t width;
  CpuRows over;
  size_t last = 0;  // the last node that reads it
};

class Reader {
 public:
  Reader(JsonValue root, Span<const uint8_t> weights, const ModelSpec& spec, CpuProgram* program)
      : root_(root), weights_(weights), spec_(spec), keys_(keys_of(spec)), program_(*program) {}

  Status read() {
    if (root_["format"].text() != "edgedec-cpu" || root_["version"].whole() != 1) return damaged("it is of another format");
    const JsonValue nodes = root_["nodes"];
    for (size_t at = 0; at < nodes.size(); ++at) EDGEDEC_TRY(read_node(nodes.at(at)));
    if (program_.nodes.empty() || program_.nodes.back().op != CpuOp::kHead) return damaged("it does not end with a head");
    size_t layers = 0;
    for (const Keys& kind : keys_) layers += static_cast<size_t>(kind.layers);
    for (const States& kind : spec_.states) layers += static_cast<size_t>(kind.layers);
    if (written_.size() != layers) return damaged("it has another number of layers");
    share_buffers();
    return {};
  }

 private:
  Status read_node(JsonValue json) {
    static constexpr std::pair<std::string_view, Status (Reader::*)(JsonValue, CpuNode*)> kReaders[] = {
        {"QuantEmbedding", &Reader::embedding}, {"RotaryTable", &Reader::rotary},     {"RMSNorm", &Reader::norm},
        {"QuantLinear", &Reader::linear},       {"GatedMLP", &Reader::mlp},           {"TreeAttention", &Reader::attention},
        {"GatedProduct", &Reader::product},     {"ShortConv", &Reader::short_conv},   {"GatedDelta", &Reader::gated_delta},
        {"Columns", &Reader::columns},          {"Scale", &Reader::scale},            {"FromFirst", &Reader::from_first},
        {"Gather", &Reader::gather},            {"HeadTopK", &Reader::head}};
    const std::string_view op = json["op"].text().value_or("");
    for (const auto& [name, reader] : kReaders) {
      if (name != op) continue;
      CpuNode node;
      EDGEDEC_TRY((this->*reader)(json, &node));
      for (int value : {node.in, node.other, node.rotary})
        if (value >= 0) values_[static_cast<size_t>(value)].last = program_.nodes.size();
      if (node.op != CpuOp::kHead) {
        const std::string_view out = json["out"].text().value_or("");
        if (out.empty() || find(out) >= 0 || !node.width || node.width > kMostSize) return damaged("a node writes nothing");
        node.out = static_cast<int>(values_.size());
        values_.push_back({std::string(out), node.width, node.over, program_.nodes.size()});
      }
      program_.nodes.push_back(std::move(node));
      return {};
    }
    return damaged("unknown op " + quoted(op));
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
    const ProgramValue& value = values_[static_cast<size_t>(*found)];
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

  // Bytes of a tensor in weights.bin; null: it is none, or not inside.
  const uint8_t* tensor(std::string_view name, size_t bytes) const {
    const JsonValue place = root_["tensors"][name];
    if (place.size() != 2) return nullptr;
    const int64_t offset = place.at(0).whole().value_or(-1), size = place.at(1).whole().value_or(-1);
    const bool inside = offset >= 0 && size >= 0 && static_cast<uint64_t>(offset) <= weights_.size() &&
                        static_cast<uint64_t>(size) <= weights_.size() - static_cast<uint64_t>(offset);
    return inside && static_cast<uint64_t>(size) == bytes ? weights_.data() + offset : nullptr;
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

  Status embedding(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kEmbedding;
    EDGEDEC_TRY(size(json["cols"], &node->width));
    if (json["rows"].whole() != spec_.vocab_size || input(json, 0) != "tokens") return damaged("it embeds something else");
    node->scale = real(json["scale"], 1.0f);
    return weight(input(json, 1), json["format"].text().value_or(""), spec_.vocab_size, node->width, node);
  }

  Status rotary(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kRotary;
    const std::string_view name = input(json, 1);
    const size_t half = root_["constants"][name].size();
    if (!half || half > kMostSize || input(json, 0) != "positions") return damaged("a rotary table has no frequencies");
    node->width = 2 * half;
    return floats(name, half, &node->floats[0]);
  }

  Status norm(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kNorm;
    EDGEDEC_TRY(same_width(json, node));
    EDGEDEC_TRY(size(json["cols"], &node->cols));
    if (node->width % node->cols) return damaged("a norm cuts a row");
    node->epsilon = real(json["epsilon"], 0.0f);
    EDGEDEC_TRY(maybe_value(json, 2, node->width, node, &node->other));
    return floats(input(json, 1), node->cols, &node->floats[0]);
  }

  // Reads the first input of a node that writes rows as wide.
  Status same_width(JsonValue json, CpuNode* node) {
    EDGEDEC_TRY(value(json, 0, 0, node, &node->in));
    node->width = values_[static_cast<size_t>(node->in)].width;
    return {};
  }

  Status linear(JsonValue json, CpuNode* node) {
    constexpr size_t kFirst = 3;  // input that is a weight
    node->op = CpuOp::kLinear;
    const JsonValue formats = json["formats"], rows = json["rows"];
    size_t cols;
    EDGEDEC_TRY(size(json["cols"], &cols));
    if (!formats.size() || formats.size() != rows.size()) return damaged("formats and rows differ in length");
    for (size_t at = 0; at < rows.size(); ++at) {
      EDGEDEC_TRY(weight(input(json, kFirst + at), formats.at(at).text().value_or(""), rows.at(at).whole().value_or(0), cols, node));
      node->width += static_cast<size_t>(node->weights.back().rows);
    }
    node->terms = json["terms"].whole() == 2 ? 2 : 1;
    EDGEDEC_TRY(value(json, 0, cols, node, &node->in));
    EDGEDEC_TRY(maybe_value(json, 2, node->width, node, &node->other));
    return maybe_floats(input(json, 1), node->width, &node->floats[0]);
  }

  Status mlp(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kMlp;
    const JsonValue formats = json["formats"];
    size_t cols;
    EDGEDEC_TRY(size(json["cols"], &cols));
    EDGEDEC_TRY(size(json["rows"], &node->width));
    EDGEDEC_TRY(activation(json, node));
    if (formats.size() != 2 || node->activation == gated_mlp::Activation::kSigmoid) return damaged("an MLP is unknown");
    for (size_t at = 0; at < 2; ++at)
      EDGEDEC_TRY(weight(input(json, 1 + at), formats.at(at).text().value_or(""), static_cast<int64_t>(node->width), cols, node));
    return value(json, 0, cols, node, &node->in);
  }

  static Status activation(JsonValue json, CpuNode* node) {
    const std::string_view name = json["activation"].text().value_or("");
    return gated_mlp::activation_by_name(name, &node->activation) ? Status() : damaged("unknown activation " + quoted(name));
  }

  Status product(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kProduct;
    EDGEDEC_TRY(activation(json, node));
    EDGEDEC_TRY(same_width(json, node));
    return value(json, 1, node->width, node, &node->other);
  }

  Status attention(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kAttention;
    tree_attention::Config& config = node->attention;
    EDGEDEC_TRY(size(json["num_heads"], &config.heads));
    EDGEDEC_TRY(size(json["num_kv_heads"], &config.kv_heads));
    EDGEDEC_TRY(size(json["head_dim"], &config.dim));
    config.scale = real(json["scale"], 1.0f);
    config.window = static_cast<size_t>(std::clamp<int64_t>(json["window"].whole().value_or(0), 0, kMostSize));
    config.interleaved = json["interleaved"].whole().value_or(0) != 0;
    config.epsilon = real(json["epsilon"], 1e-6f);
    config.softcap = real(json["softcap"], 0.0f);
    config.value_norm = json["value_norm"].whole().value_or(0) != 0;
    config.shared = json["shared"].whole().value_or(0) != 0;
    config.ring = false;  // every layer has a slot for every token here
    if (const char* wrong = tree_attention::problem(config, {nullptr, 0, 0, 0}, 1)) return damaged(wrong);
    if (!input(json, 9).empty()) return damaged("its attention has sinks");
    EDGEDEC_TRY(keys(json, node));
    node->width = config.heads * config.dim;
    EDGEDEC_TRY(value(json, 0, config.qkv_heads() * config.dim, node, &node->in));
    EDGEDEC_TRY(value(json, 1, config.dim, node, &node->rotary));
    if (values_[static_cast<size_t>(node->rotary)].over != CpuRows::kAll || node->over == CpuRows::kChosen ||
        (node->over != CpuRows::kAll && !config.shared))
      return damaged("attention runs over rows");
    EDGEDEC_TRY(maybe_floats(input(json, 5), config.dim, &node->floats[0]));
    return maybe_floats(input(json, 6), config.dim, &node->floats[1]);
  }

  // The layer whose keys an attention writes, or reads where they are shared.
  Status keys(JsonValue json, CpuNode* node) {
    const bool ring = input(json, 4) == "kv_window";
    while (node->kind < keys_.size() && (keys_[node->kind].window != 0) != ring) ++node->kind;
    const int64_t layer = json["layer"].whole().value_or(-1);
    if (node->kind == keys_.size() || layer < 0 || layer >= keys_[node->kind].layers) return damaged("its keys have no place");
    const Keys& kind = keys_[node->kind];
    if (static_cast<int64_t>(node->attention.kv_heads) != kind.kv_heads || static_cast<int64_t>(node->attention.dim) != kind.head_dim)
      return damaged("its heads are not those of the model");
    node->layer = static_cast<size_t>(layer);
    return writes({node->kind, node->layer}, node->attention.shared);
  }

  // Notes that a layer is written, which happens once; `before`: or that it was.
  Status writes(std::pair<size_t, size_t> layer, bool before) {
    const bool known = std::find(written_.begin(), written_.end(), layer) != written_.end();
    if (known != before) return damaged("a layer is written twice, or read before it is written");
    if (!known) written_.push_back(layer);
    return {};
  }

  // The layer of a recurrent op, whose trail has rows of so many numbers.
  Status recurrence(JsonValue json, size_t taps, size_t row, size_t state, CpuNode* node) {
    const std::vector<States>& kinds = spec_.states;
    while (node->kind < kinds.size() && input(json, 4) != trail_input(kinds[node->kind])) ++node->kind;
    const int64_t layer = json["layer"].whole().value_or(-1);
    if (node->kind == kinds.size() || layer < 0 || layer >= kinds[node->kind].layers) return damaged("its states have no place");
    const States& kind = kinds[node->kind];
    if (kind.row != static_cast<int64_t>(row) || kind.state != static_cast<int64_t>(state) ||
        kind.tail != static_cast<int64_t>(taps) - 1)
      return damaged("its states are not those of the model");
    if (node->over != CpuRows::kAll) return damaged("a recurrence runs over rows");
    node->layer = static_cast<size_t>(layer);
    return writes({keys_.size() + node->kind, node->layer}, false);
  }

  Status short_conv(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kShortConv;
    short_conv::Config& config = node->conv;
    EDGEDEC_TRY(size(json["kernel"], &config.taps));
    EDGEDEC_TRY(value(json, 0, 0, node, &node->in));
    node->width = config.hidden = values_[static_cast<size_t>(node->in)].width / 3;
    const char* wrong = recurrent::taps_problem(config.taps);
    if (!wrong) wrong = short_conv::problem(config);
    if (wrong || values_[static_cast<size_t>(node->in)].width != 3 * config.hidden) return damaged("a convolution is impossible");
    EDGEDEC_TRY(recurrence(json, config.taps, config.hidden, 0, node));
    return floats(input(json, 5), config.hidden * config.taps, &node->floats[0]);
  }

  Status gated_delta(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kGatedDelta;
    gated_delta::Config& config = node->delta;
    const std::pair<const char*, size_t*> sizes[] = {{"k_heads", &config.k_heads}, {"v_heads", &config.v_heads},
                                                     {"k_dim", &config.k_dim},     {"v_dim", &config.v_dim},
                                                     {"kernel", &config.taps}};
    for (const auto& [name, place] : sizes) EDGEDEC_TRY(size(json[name], place));
    config.epsilon = real(json["epsilon"], 0.0f);
    config.tiled = json["tiled"].whole().value_or(0) != 0;
    if (const char* wrong = gated_delta::problem(config)) return damaged(wrong);
    node->width = config.values();
    EDGEDEC_TRY(value(json, 0, config.token_row(), node, &node->in));
    EDGEDEC_TRY(recurrence(json, config.taps, config.trail_row(), config.state(), node));
    const size_t counts[] = {config.channels() * config.taps, config.v_heads, config.v_heads, config.v_dim};
    for (size_t at = 0; at < 4; ++at) EDGEDEC_TRY(floats(input(json, 6 + at), counts[at], &node->floats[at]));
    return {};
  }

  Status columns(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kColumns;
    EDGEDEC_TRY(same_width(json, node));
    size_t parts, part;
    EDGEDEC_TRY(size(json["parts"], &parts));
    part = static_cast<size_t>(json["part"].whole().value_or(-1));
    if (part >= parts || node->width % parts) return damaged("a row has no such part");
    node->cols = node->width;
    node->width /= parts;
    node->first = part * node->width;
    return {};
  }

  Status scale(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kScale;
    EDGEDEC_TRY(same_width(json, node));
    return floats(input(json, 1), 1, &node->floats[0]);
  }

  Status from_first(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kFromFirst;
    EDGEDEC_TRY(same_width(json, node));
    if (node->over != CpuRows::kAll) return damaged("tokens are left out twice");
    node->over = CpuRows::kFromFirst;
    return {};
  }

  Status gather(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kGather;
    EDGEDEC_TRY(same_width(json, node));
    if (node->over == CpuRows::kChosen || input(json, 1) != "rows") return damaged("it gathers something else than rows");
    node->over = CpuRows::kChosen;
    return {};
  }

  Status head(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kHead;
    size_t cols;
    EDGEDEC_TRY(size(json["cols"], &cols));
    if (json["rows"].whole() != spec_.vocab_size || json["k"].whole() != spec_.head_k || spec_.head_k > head_topk::kBlock)
      return damaged("its head is not that of the model");
    node->k = static_cast<int>(spec_.head_k);
    node->refine = json["refine"].whole().value_or(0) != 0;
    node->softcap = real(json["softcap"], 0.0f);
    EDGEDEC_TRY(value(json, 0, cols, node, &node->in));
    if (node->over != CpuRows::kChosen || !(node->softcap >= 0.0f)) return damaged("its head does not read rows");
    return weight(input(json, 1), json["format"].text().value_or(""), spec_.vocab_size, cols, node);
  }

  // Gives every value a buffer that nothing needs any more while it lives.
  void share_buffers() {
    std::vector<int> buffer_of(values_.size(), -1);
    std::vector<size_t> free_from;  // by buffer: the node from which on it is free
    for (size_t at = 0; at < program_.nodes.size(); ++at) {
      CpuNode& node = program_.nodes[at];
      for (int* value : {&node.in, &node.other, &node.rotary})
        if (*value >= 0) *value = buffer_of[static_cast<size_t>(*value)];
      if (node.out < 0) continue;
      const ProgramValue& made = values_[static_cast<size_t>(node.out)];
      size_t buffer = 0;
      while (buffer < free_from.size() && free_from[buffer] > at) ++buffer;
      if (buffer == free_from.size()) {
        free_from.push_back(0);
        program_.buffers.push_back(0);
      }
      free_from[buffer] = made.last + 1;
      program_.buffers[buffer] = std::max(program_.buffers[buffer], made.width);
      buffer_of[static_cast<size_t>(node.out)] = static_cast<int>(buffer);
      node.out = static_cast<int>(buffer);
    }
  }

  JsonValue root_;
  Span<const uint8_t> weights_;
  const ModelSpec& spec_;
  const std::vector<Keys> keys_;
  CpuProgram& program_;
  std::vector<ProgramValue> values_;
  std::vector<std::pair<size_t, size_t>> written_;  // layers of caches: the kind, states behind keys, and the layer
};

}  // namespace

Status CpuProgram::read(std::string_view text, Span<const uint8_t> weights, const ModelSpec& spec, CpuProgram* program) {
  *program = {};
  Json json;
  if (!json.parse(text, kProgramLimits)) return damaged("it is not JSON");
  return Reader(json.root(), weights, spec, program).read();
}

}  // namespace edgedec::engine
