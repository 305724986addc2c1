// Runs a template's program over one conversation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/span.h"
#include "core/base/status.h"
#include "engine/text/template_program.h"
#include "engine/text/template_values.h"

namespace edgedec::engine {

class TemplateRenderer {
 public:
  TemplateRenderer(const TemplateProgram& program, Span<const Message> messages);

  // Sets a variable that the template sees. The name is looked for among those that it uses.
  void set(std::string_view name, Value value);
  void set_messages();

  Status render(std::string* prompt);

 private:
  enum class Flow { kGoesOn, kBreak, kContinue, kFailed };
  struct Binding {
    uint32_t name;
    Value value;
  };

  // Statements.
  Flow run(uint32_t number);
  Flow run_block(const Node& node);
  Flow run_loop(const Node& node);
  bool write(const Node& node);
  bool set_block(const Node& node);
  bool set_attribute(const Node& node);
  void assign(uint32_t name, const Value& value);

  // Expressions: false where they fail.
  bool value_of(uint32_t number, Value* value);
  bool operation(const Node& node, Value* value);
  bool arithmetic(const Node& node, const Value& a, const Value& b, Value* value);
  bool attribute(const Node& node, Value* value);
  bool loop_attribute(const Loop& loop, std::string_view name, Value* value);
  bool item(const Node& node, Value* value);
  bool slice(const Node& node, Value* value);
  bool new_namespace(const Node& node, Value* value);
  bool look_up(uint32_t name, Value* value) const;
  bool arguments(const Node& node, uint32_t at, List* values);
  bool message_field(const Value& message, std::string_view name, Value* value);

  bool compare(Comparison comparison, const Value& a, const Value& b, bool* result);
  bool equal(const Value& a, const Value& b, bool* result);
  bool contains(const Value& all, const Value& one, bool* result);
  bool truth(const Value& value, bool* result);
  bool text_of(const Value& value, std::string_view* text);
  bool items_of(const Value& value, const List** items);

  // Filters, tests, methods and functions.
  bool filter(Filter filter, const Value& value, const List& arguments, Value* result);
  bool test(Test test, const Value& value, const List& arguments, Value* result);
  bool method(Method method, const Value& value, const List& arguments, Value* result);
  bool call(Function function, const List& arguments, Value* result);
  bool length(const Value& value, int64_t* length);
  bool to_json(const Value& value, Value* result);
  bool replace(std::string_view text, const List& arguments, Value* result);
  bool strip(Method method, std::string_view text, const List& arguments, Value* result);
  bool split(Method method, std::string_view text, const List& arguments, Value* result);
  bool in_case(std::string_view text, char form, Value* result);
  bool join(const Value& items, const Value& between, Value* result);
  bool time_now(std::string_view format, Value* result);

  // Each sets the status, with the line, and returns false.
  bool fail(std::string_view reason);
  bool unknown(std::string_view construct);
  bool work(size_t steps);
  bool made(std::string text, Value* result);
  bool made(List list, Value* result);

  const TemplateProgram& program_;
  Span<const Message> messages_;
  ValueStore store_;
  uint64_t steps_;
  size_t most_bytes_;
  std::vector<Binding> bindings_;
  size_t scope_ = 0;  // where the bindings of the innermost scope begin
  std::string* out_ = nullptr;
  uint32_t line_ = 0;
  Status status_;
};

}  // namespace edgedec::engine
