// The outcome of a call that can fail. The engine is built without exceptions, so errors travel as values.
#pragma once

#include <string>
#include <utility>

namespace edgedec::engine {

// The numbers are those of edgedec.h and the exit codes of the edgedec command.
enum class Code : int {
  kOk = 0,
  kUsage = 2,
  kNotFound = 3,
  kBadFile = 4,
  kUnsupported = 5,
  kStorage = 7,
  kContextFull = 8,
  kBackend = 9,
  kMemoryBudget = 10,
  kNoMemory = 11,
};

// Success, or a code with a message of one line, which says what is wrong, and a hint, which says how to mend it.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message, std::string hint = {})
      : code_(code), message_(std::move(message)), hint_(std::move(hint)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }

 private:
  Code code_ = Code::kOk;
  std::string message_, hint_;
};

}  // namespace edgedec::engine

// Returns from the calling function with a failed Status.
#define EDGEDEC_TRY(expression)                                                  \
  do {                                                                           \
    if (::edgedec::engine::Status tried = (expression); !tried.ok()) return tried; \
  } while (false)
