#include "engine/web/cpu_program.h"

#include <algorithm>
#include <cmath>

#include "core/base/format.h"
#include "engine/model/state_memory.h"
#include "engine/web/cpu_values.h"
#include "head_topk/head_topk.h"

namespace edgedec::engine {
namespace {

constexpr JsonLimits kProgramLimits = {size_t{8} << 20, 16, size_t{1} << 19};
constexpr size_t kMostExits = 64;

class Reader : private CpuValues {
 public:
  Reader(JsonValue root, Span<const uint8_t> weights, Span<const uint8_t> shared, const CpuShape& shape, CpuProgram* program)
      : CpuValues(root, weights, shared, program), shape_(shape) {}

  Status read() {
    if (root_["format"].text() != "edgedec-cpu" || root_["version"].whole() != 1) return damaged("it is of another format");
    const JsonValue nodes = root_["nodes"];
    for (size_t at = 0; at < nodes.size(); ++at) EDGEDEC_TRY(read_node(nodes.at(at)));
    if (program_.nodes.empty() || program_.nodes.back().op != CpuOp::kHead) return damaged("it does not end with a head");
    size_t layers = 0;
    for (const Keys& kind : shape_.keys) layers += static_cast<size_t>(kind.layers);
    for (const States& kind : shape_.states) layers += static_cast<size_t>(kind.layers);
    if (!shape_.lent && written_.size() != layers) return damaged("it has another number of layers");
    if (shape_.hidden) EDGEDEC_TRY(find_out());
    find_outs();
    EDGEDEC_TRY(find_exits());
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
        {"Experts", &Reader::experts_of_layer},
        {"Taps", &Reader::taps},                {"WithStates", &Reader::with_states}, {"Beside", &Reader::beside},
        {"Add", &Reader::add},                  {"Nearest", &Reader::nearest},        {"Gather", &Reader::gather},
        {"HeadTopK", &Reader::head}};
    const std::string_view op = json["op"].text().value_or("");
    for (const auto& [name, reader] : kReaders) {
      if (name != op) continue;
      CpuNode node;
      EDGEDEC_TRY((this->*reader)(json, &node));
      for (int value : {node.in, node.other, node.rotary})
        if (value >= 0) values_[static_cast<size_t>(value)].last = program_.nodes.size();
      if (node.op != CpuOp::kHead && node.op != CpuOp::kNearest) {
        const std::string_view out = json["out"].text().value_or("");
        if (out.empty() || find(out) >= 0 || !node.width || node.width > kMostSize) return damaged("a node writes nothing");
        node.out = static_cast<int>(values_.size());
        values_.push_back({std::string(out), node.width, node.over, program_.nodes.size(), program_.nodes.size()});
      }
      program_.nodes.push_back(std::move(node));
      return {};
    }
    return damaged("unknown op " + quoted(op));
  }

  Status embedding(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kEmbedding;
    EDGEDEC_TRY(size(json["cols"], &node->width));
    if (json["rows"].whole() != shape_.vocabulary || input(json, 0) != "tokens") return damaged("it embeds something else");
    node->scale = real(json["scale"], 1.0f);
    return weight(input(json, 1), json["format"].text().value_or(""), shape_.vocabulary, node->width, node);
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

  // Experts whose weights lie one after the other. The router's scores come as the second value, a residual as the last one.
  Status experts_of_layer(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kExperts;
    experts::Routing& routing = node->routing;
    size_t width, all, some;
    EDGEDEC_TRY(size(json["experts"], &all));
    EDGEDEC_TRY(size(json["chosen"], &some));
    EDGEDEC_TRY(size(json["rows"], &width));
    EDGEDEC_TRY(size(json["cols"], &node->width));
    EDGEDEC_TRY(activation(json, node));
    const std::string_view gating = json["gating"].text().value_or("");
    if (all > experts::kMostExperts || some > all || some > experts::kMostChosen || (gating != "softmax" && gating != "sigmoid"))
      return damaged("its experts are impossible");
    routing = {static_cast<int>(all), static_cast<int>(some),
               gating == "sigmoid" ? experts::Gating::kSigmoid : experts::Gating::kSoftmax,
               json["normalise"].whole().value_or(0) != 0, real(json["epsilon"], 0.0f), real(json["scale"], 1.0f)};
    Weight shapes[3];
    for (size_t at = 0; at < 3; ++at) {
      const auto format = std::string(json["formats"].at(at).text().value_or(""));
      shapes[at].format = format_by_name(format.c_str());
      if (json["formats"].size() != 3 || shapes[at].format == FormatId::kCount) return damaged("an expert has no known format");
      shapes[at].rows = static_cast<int>(at == 2 ? node->width : width);
      shapes[at].cols = static_cast<int>(at == 2 ? width : node->width);
    }
    node->shapes = experts::Shapes(shapes[0], shapes[1], shapes[2], json["biases"].whole().value_or(0) != 0);
    node->experts = tensor(input(json, 2), uint64_t{all} * node->shapes.stride);
    if (!node->experts) return damaged("its experts have another size");
    EDGEDEC_TRY(value(json, 0, node->width, node, &node->in));
    EDGEDEC_TRY(value(json, 1, all, node, &node->other));
    if (!input(json, 5).empty()) {
      EDGEDEC_TRY(value(json, 5, node->width, node, &node->rotary));
      if (values_[static_cast<size_t>(node->rotary)].over != node->over) return damaged("a node reads values of different tokens");
    }
    EDGEDEC_TRY(maybe_floats(input(json, 3), all, &node->floats[0]));
    return maybe_floats(input(json, 4), all, &node->floats[1]);
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
    EDGEDEC_TRY(keys(json, node));
    node->width = config.heads * config.dim;
    EDGEDEC_TRY(value(json, 0, config.qkv_heads() * config.dim, node, &node->in));
    EDGEDEC_TRY(value(json, 1, config.dim, node, &node->rotary));
    if (values_[static_cast<size_t>(node->rotary)].over != CpuRows::kAll || node->over == CpuRows::kChosen ||
        (node->over != CpuRows::kAll && !config.shared))
      return damaged("attention runs over rows");
    EDGEDEC_TRY(maybe_floats(input(json, 5), config.dim, &node->floats[0]));
    EDGEDEC_TRY(maybe_floats(input(json, 6), config.dim, &node->floats[1]));
    return maybe_floats(input(json, 9), config.heads, &node->floats[2]);
  }

  // The layer whose keys an attention writes, or reads where they are shared.
  Status keys(JsonValue json, CpuNode* node) {
    const bool ring = input(json, 4) == "kv_window";
    while (node->kind < shape_.keys.size() && (shape_.keys[node->kind].window != 0) != ring) ++node->kind;
    const int64_t layer = json["layer"].whole().value_or(-1);
    if (node->kind == shape_.keys.size() || layer < 0 || layer >= shape_.keys[node->kind].layers) return damaged("its keys have no place");
    const Keys& kind = shape_.keys[node->kind];
    if (static_cast<int64_t>(node->attention.kv_heads) != kind.kv_heads || static_cast<int64_t>(node->attention.dim) != kind.head_dim)
      return damaged("its heads are not those of the model");
    node->layer = static_cast<size_t>(layer);
    return writes({node->kind, node->layer}, node->attention.shared);
  }

  // Notes that a layer is written, which happens once; `before`: or that it was.
  Status writes(std::pair<size_t, size_t> layer, bool before) {
    const bool known = std::find(written_.begin(), written_.end(), layer) != written_.end() || (before && shape_.lent);
    if (known != before) return damaged("a layer is written twice, or read before it is written");
    if (!known) written_.push_back(layer);
    return {};
  }

  // The layer of a recurrent op, whose trail has rows of so many numbers.
  Status recurrence(JsonValue json, size_t taps, size_t row, size_t state, CpuNode* node) {
    const std::vector<States>& kinds = shape_.states;
    while (node->kind < kinds.size() && input(json, 4) != trail_input(kinds[node->kind])) ++node->kind;
    const int64_t layer = json["layer"].whole().value_or(-1);
    if (node->kind == kinds.size() || layer < 0 || layer >= kinds[node->kind].layers) return damaged("its states have no place");
    const States& kind = kinds[node->kind];
    if (kind.row != static_cast<int64_t>(row) || kind.state != static_cast<int64_t>(state) ||
        kind.tail != static_cast<int64_t>(taps) - 1)
      return damaged("its states are not those of the model");
    if (node->over != CpuRows::kAll) return damaged("a recurrence runs over rows");
    node->layer = static_cast<size_t>(layer);
    return writes({shape_.keys.size() + node->kind, node->layer}, false);
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

  // Hidden states of the target, which a pass gives for its first tokens.
  Status taps(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kTaps;
    node->over = CpuRows::kCommitted;
    EDGEDEC_TRY(size(json["cols"], &node->width));
    return node->width == shape_.taps ? Status() : damaged("it reads other hidden states");
  }

  Status with_states(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kWithStates;
    EDGEDEC_TRY(value(json, 0, shape_.hidden, node, &node->in));
    if (!shape_.hidden || node->over != CpuRows::kCommitted) return damaged("states come behind something else");
    node->width = shape_.hidden;
    node->over = CpuRows::kAll;
    return {};
  }

  Status beside(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kBeside;
    EDGEDEC_TRY(same_width(json, node));
    EDGEDEC_TRY(value(json, 1, 0, node, &node->other));
    node->cols = node->width;
    node->width += values_[static_cast<size_t>(node->other)].width;
    return {};
  }

  Status add(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kAdd;
    EDGEDEC_TRY(same_width(json, node));
    return value(json, 1, node->width, node, &node->other);
  }

  // The clusters, of as many rows of the head each, that one token is nearest to.
  Status nearest(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kNearest;
    EDGEDEC_TRY(same_width(json, node));
    EDGEDEC_TRY(size(json["chosen"], &node->cols));
    const auto rows = static_cast<size_t>(shape_.scored);
    if (!shape_.lent || node->over != CpuRows::kAll || node->cols > node->width || node->width > rows)
      return damaged("it chooses clusters that are none");
    node->first = rows / node->width;
    return {};
  }

  Status gather(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kGather;
    EDGEDEC_TRY(same_width(json, node));
    if (node->over == CpuRows::kChosen || node->over == CpuRows::kCommitted || input(json, 1) != "rows" || program_.ending)
      return damaged("it gathers something else than rows");
    node->over = CpuRows::kChosen;
    program_.ending = program_.nodes.size();
    return {};
  }

  Status head(JsonValue json, CpuNode* node) {
    node->op = CpuOp::kHead;
    size_t cols;
    EDGEDEC_TRY(size(json["cols"], &cols));
    if (json["rows"].whole() != shape_.scored || json["k"].whole() != shape_.k || shape_.k > head_topk::kBlock)
      return damaged("its head is not that of the model");
    node->k = static_cast<int>(shape_.k);
    node->refine = json["refine"].whole().value_or(0) != 0;
    node->softcap = real(json["softcap"], 0.0f);
    EDGEDEC_TRY(value(json, 0, cols, node, &node->in));
    const bool one = shape_.lent && node->over == CpuRows::kAll;  // a step over one token
    if ((node->over != CpuRows::kChosen && !one) || !(node->softcap >= 0.0f)) return damaged("its head does not read rows");
    return weight(input(json, 1), json["format"].text().value_or(""), shape_.scored, cols, node);
  }

  Status find_out() {
    const int at = find("out");
    if (at < 0 || values_[static_cast<size_t>(at)].width != shape_.hidden) return damaged("it has no states behind tokens");
    program_.out = static_cast<int>(values_[static_cast<size_t>(at)].node);
    return values_[static_cast<size_t>(at)].over == CpuRows::kAll ? Status() : damaged("it has states of some tokens");
  }

  // Finds the outputs of layers, by their names in the graph.
  void find_outs() {
    for (int layer = 0;; ++layer) {
      const int at = find("blk." + decimal(int64_t{layer}) + ".out");
      if (at < 0 || shape_.hidden) return;
      program_.outs.push_back({layer, values_[static_cast<size_t>(at)].node});
    }
  }

  // Checks that all that goes on behind an exit is the output of its last layer.
  Status find_exits() {
    const JsonValue exits = root_["exits"];
    for (size_t at = 0; at < exits.size(); ++at) {
      const int64_t exit = exits.at(at).whole().value_or(0);
      if (at == kMostExits || !program_.ending || exit < 1 || exit > static_cast<int64_t>(program_.outs.size()) || !shape_.states.empty() ||
          (at && exit <= program_.exits.back()))
        return damaged("its exits are none");
      program_.exits.push_back(static_cast<int>(exit));
      const size_t node = program_.out_of(static_cast<int>(exit) - 1)->node;
      for (const CpuValue& value : values_)
        if (value.node < node && value.last > node && program_.nodes[value.node].op != CpuOp::kRotary)
          return damaged("an exit cuts values");
      if (program_.nodes[node].over != CpuRows::kAll || program_.nodes[node].width != program_.nodes[program_.ending].width)
        return damaged("an exit has other rows than the head");
    }
    const bool whole = program_.exits.empty() || program_.exits.back() == static_cast<int>(program_.outs.size());
    return whole ? Status() : damaged("its exits do not end with all layers");
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
      const CpuValue& made = values_[static_cast<size_t>(node.out)];
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

  const CpuShape& shape_;
  std::vector<std::pair<size_t, size_t>> written_;  // layers of caches: the kind, states behind keys, and the layer
};

}  // namespace

CpuShape CpuShape::of(const ModelSpec& spec) {
  CpuShape shape;
  shape.vocabulary = shape.scored = spec.vocab_size;
  shape.k = spec.head_k;
  shape.keys = keys_of(spec);
  shape.states = spec.states;
  return shape;
}

Status CpuProgram::read(std::string_view text, Span<const uint8_t> weights, Span<const uint8_t> shared, const CpuShape& shape,
                        CpuProgram* program) {
  *program = {};
  Json json;
  if (!json.parse(text, kProgramLimits)) return {Code::kBadFile, "cpu.json is damaged: it is not JSON", "export the model again"};
  return Reader(json.root(), weights, shared, shape, program).read();
}

const CpuLayerOut* CpuProgram::out_of(int layer) const {
  return layer >= 0 && static_cast<size_t>(layer) < outs.size() ? &outs[static_cast<size_t>(layer)] : nullptr;
}

}  // namespace edgedec::engine
