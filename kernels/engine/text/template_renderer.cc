#include "engine/text/template_renderer.h"

#include "core/base/format.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostCharacters = 1'000'000;  // of the result, beyond four times those of the messages
constexpr size_t kMostStored = 8 << 20;        // bytes of values, beyond 64 times those of the messages
constexpr uint64_t kMostSteps = 2'000'000;     // beyond 64 for each byte of the messages

size_t bytes_of(const Talk& talk) {
  size_t bytes = 0;
  for (const Message& message : talk.messages)
    bytes += message.role.size() + message.content.size() + (message.fields ? message.fields->bytes() : 0);
  for (const PlainValue& tool : talk.tools) bytes += tool.bytes();
  return bytes;
}

}  // namespace

TemplateRenderer::TemplateRenderer(const TemplateProgram& program, const Talk& talk)
    : program_(program),
      talk_(talk),
      store_(kMostStored + 64 * bytes_of(talk)),
      steps_(kMostSteps + 64 * bytes_of(talk)),
      most_bytes_(4 * (kMostCharacters + 4 * bytes_of(talk))) {}

void TemplateRenderer::set(std::string_view name, Value value) {
  for (uint32_t number = 0; number <= program_.root(); ++number) {
    const Node& node = program_.node(number);
    if (node.op != Op::kName || program_.text(node.values[1], node.values[2]) != name) continue;
    return assign(node.values[0], value);
  }
}

void TemplateRenderer::set_talk() {
  List turns, tools;
  Value value;
  for (const Message& message : talk_.messages) {
    Object turn;
    turn.fields = {{"role", Value::string(message.role)}, {"content", Value::string(message.content)}};
    for (size_t at = 0; message.fields && at < message.fields->items.size(); ++at) {
      if (!value_from(message.fields->items[at], &value)) return;
      turn.fields.emplace_back(message.fields->keys[at], value);
    }
    if (!made(std::move(turn), &value)) return;
    turns.push_back(value);
  }
  for (const PlainValue& tool : talk_.tools) {
    if (!value_from(tool, &value)) return;
    tools.push_back(value);
  }
  if (made(std::move(turns), &value)) set("messages", value);
  value = Value::none();
  if (!talk_.tools.empty() && !made(std::move(tools), &value)) return;
  set("tools", value);
  if (!talk_.tools.empty()) set("xml_tools", value);  // SmolLM3's name for them
}

bool TemplateRenderer::value_from(const PlainValue& plain, Value* value) {
  List items;
  Object object;
  switch (plain.kind) {
    case PlainValue::Kind::kNull: *value = Value::none(); return true;
    case PlainValue::Kind::kFlag: *value = Value::flag(plain.whole != 0); return true;
    case PlainValue::Kind::kWhole: *value = Value::whole(plain.whole); return true;
    case PlainValue::Kind::kReal: *value = Value::fraction(plain.real); return true;
    case PlainValue::Kind::kText: *value = Value::string(plain.text); return true;
    default: break;
  }
  Value item;
  for (size_t at = 0; at < plain.items.size(); ++at) {
    if (!value_from(plain.items[at], &item)) return false;
    if (plain.is(PlainValue::Kind::kList)) items.push_back(item);
    else object.fields.emplace_back(plain.keys[at], item);
  }
  return plain.is(PlainValue::Kind::kList) ? made(std::move(items), value) : made(std::move(object), value);
}

Status TemplateRenderer::render(std::string* prompt) {
  prompt->clear();
  out_ = prompt;
  scope_ = bindings_.size();  // what the template sets does not replace what it was given: it comes behind
  if (status_.ok()) run(program_.root());
  if (!status_.ok()) prompt->clear();
  return status_;
}

bool TemplateRenderer::fail(std::string_view reason) {
  const std::string where = "the chat template failed in line " + decimal(static_cast<uint64_t>(line_)) + ": ";
  if (status_.ok()) status_ = {Code::kBadFile, where + std::string(reason), "complete a text without the template"};
  return false;
}

bool TemplateRenderer::unknown(std::string_view construct) {
  const std::string where = "the chat template needs " + std::string(construct) + " in line ";
  if (status_.ok()) {
    status_ = {Code::kUnsupported, where + decimal(static_cast<uint64_t>(line_)) + ", which this engine does not know",
               "use a model with another chat template, or complete a text without it"};
  }
  return false;
}

bool TemplateRenderer::work(size_t steps) {
  if (steps_ < steps) return fail("it takes too long");
  steps_ -= steps;
  return true;
}

bool TemplateRenderer::made(std::string text, Value* result) {
  if (!work(1 + text.size() / 16)) return false;
  const std::string* kept = store_.text(std::move(text));
  if (!kept) return fail("it takes too much memory");
  *result = Value::string(*kept);
  return true;
}

bool TemplateRenderer::made(List list, Value* result) {
  if (!work(1 + list.size())) return false;
  const List* kept = store_.list(std::move(list));
  if (!kept) return fail("it takes too much memory");
  *result = Value::sequence(kept);
  return true;
}

bool TemplateRenderer::made(Object object, Value* result) {
  if (!work(1 + object.fields.size())) return false;
  *result = Value::of(Kind::kObject);
  result->object = store_.object(std::move(object));
  return result->object || fail("it takes too much memory");
}

void TemplateRenderer::assign(uint32_t name, const Value& value) {
  for (size_t at = bindings_.size(); at-- > scope_;) {
    if (bindings_[at].name != name) continue;
    bindings_[at].value = value;
    return;
  }
  bindings_.push_back({name, value});
}

bool TemplateRenderer::look_up(uint32_t name, Value* value) const {
  const auto found = [&](size_t first, size_t end) {
    while (end > first && bindings_[end - 1].name != name) --end;
    if (end > first) *value = bindings_[end - 1].value;
    return end > first;
  };
  return found(frame_, bindings_.size()) || (frame_ && found(0, outer_));  // a macro sees no scope of its caller
}

TemplateRenderer::Flow TemplateRenderer::run(uint32_t number) {
  const Node& node = program_.node(number);
  const auto done = [](bool fine) { return fine ? Flow::kGoesOn : Flow::kFailed; };
  const Level level(&depth_);
  if (!work(1)) return Flow::kFailed;
  if (depth_ > kMostLevels) return fail("too deep a recursion"), Flow::kFailed;
  Value value;
  bool holds;
  switch (node.op) {
    case Op::kBlock:
      return run_block(node);
    case Op::kOutput:
      return done(write(node));
    case Op::kIf:
      line_ = node.line;
      if (!value_of(node.values[0], &value) || !truth(value, &holds)) return Flow::kFailed;
      return run(node.values[holds ? 1 : 2]);
    case Op::kFor:
      return run_loop(node);
    case Op::kSet:
      if (!value_of(node.values[1], &value)) return Flow::kFailed;
      assign(node.values[0], value);
      return Flow::kGoesOn;
    case Op::kSetPair:
      return done(set_pair(node));
    case Op::kSetAttribute:
      return done(set_attribute(node));
    case Op::kSetBlock:
      return done(set_block(node));
    case Op::kBreak:
      return Flow::kBreak;
    case Op::kContinue:
      return Flow::kContinue;
    default:
      return done(value_of(number, &value) && fail("an expression stands where a statement should"));
  }
}

TemplateRenderer::Flow TemplateRenderer::run_block(const Node& node) {
  for (uint32_t i = 0; i < node.values[1]; ++i) {
    const Flow flow = run(program_.item(node.values[0] + i));
    if (flow != Flow::kGoesOn) return flow;
  }
  return Flow::kGoesOn;
}

TemplateRenderer::Flow TemplateRenderer::run_loop(const Node& node) {
  line_ = node.line;
  Value over;
  const List* items;
  if (!value_of(node.values[1], &over) || !items_of(over, &items)) return Flow::kFailed;
  if (items->empty()) return run(node.values[3]);
  Value state = Value::of(Kind::kLoop);
  Loop* loop = store_.loop(items);
  if (!loop) return fail("it takes too much memory"), Flow::kFailed;
  state.loop = loop;
  const Scope scope(this);
  Flow flow = Flow::kGoesOn;
  for (; loop->index < items->size() && flow != Flow::kBreak && flow != Flow::kFailed; ++loop->index) {
    bindings_.resize(scope_);
    bindings_.push_back({program_.names(), state});  // `loop` has a number of its own
    bindings_.push_back({node.values[0], (*items)[loop->index]});
    flow = run(node.values[2]);
  }
  return flow == Flow::kFailed ? flow : Flow::kGoesOn;
}

bool TemplateRenderer::write(const Node& node) {
  for (uint32_t i = 0; i < node.values[1]; ++i) {
    Value value;
    std::string_view text;
    if (!value_of(program_.item(node.values[0] + i), &value) || !text_of(value, &text)) return false;
    if (!work(text.size() / 16)) return false;
    if (text.size() > most_bytes_ || out_->size() > most_bytes_ - text.size()) return fail("it writes too much text");
    out_->append(text);
  }
  return true;
}

bool TemplateRenderer::set_block(const Node& node) {
  std::string content;
  std::string* const outer = out_;
  out_ = &content;
  Flow flow;
  {
    const Scope scope(this);
    flow = run(node.values[1]);
  }
  out_ = outer;
  if (flow != Flow::kGoesOn) return flow != Flow::kFailed && unknown("a loop that ends within a block");
  Value value;
  if (!made(std::move(content), &value)) return false;
  assign(node.values[0], value);
  return true;
}

bool TemplateRenderer::set_pair(const Node& node) {
  Value pair;
  const List* items;
  if (!value_of(node.values[2], &pair) || !items_of(pair, &items)) return false;
  if (items->size() != 2) return fail("there are not two values for two names");
  for (uint32_t at : {0u, 1u}) assign(node.values[at], (*items)[at]);
  return true;
}

bool TemplateRenderer::set_attribute(const Node& node) {
  Value space, value;
  if (!look_up(node.values[0], &space) || !space.is(Kind::kNamespace)) return fail("an attribute of something else is set");
  if (!value_of(node.values[1], &value)) return false;
  const std::string_view name = program_.text(node.values[2], node.values[3]);
  for (auto& [key, old] : space.space->values) {
    if (key != name) continue;
    old = value;
    return true;
  }
  if (!store_.take(sizeof(Value))) return fail("it takes too much memory");
  space.space->values.emplace_back(name, value);
  return true;
}

}  // namespace edgedec::engine
