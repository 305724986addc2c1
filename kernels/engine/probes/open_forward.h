// Shared parts of the probes of forwards.
#pragma once

#include <memory>
#include <string>

#include "core/decode/forward.h"
#include "core/memory/ledger.h"

namespace edgedec::engine {

// A forward with the rows of its last pass.
struct OpenForward {
  virtual ~OpenForward() = default;

  Ledger ledger;
  std::unique_ptr<Forward> forward;
  HeadRows rows;
  std::string text;
};

// Keeps the error of a call of any probe of the model, if there was one, and returns its code.
int noted(Status status);

}  // namespace edgedec::engine
