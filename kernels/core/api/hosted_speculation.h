// A speculation behind a handle, as the other handles see it that use it.
#pragma once

#include "core/decode/speculation.h"

namespace edgedec::engine::api {

constexpr int kStopped = -1;  // the host's code raised what is no drafter's failure

class HostedSpeculation {
 public:
  // Begins a call of the handle: calls of the host in which it stopped are over.
  virtual Speculation& begin_call() = 0;
  // Whether the host stopped in this call.
  virtual bool stopped() const = 0;
  // Leaves out of a draft what the host's grammar does not permit.
  virtual AnswerFilter& filter() = 0;

 protected:
  ~HostedSpeculation() = default;
};

}  // namespace edgedec::engine::api
