// Where a draft ends since more of it would be in doubt.
#pragma once

namespace edgedec::engine {

struct Doubts {
  // Entropy above which nothing is drafted; AdaEDL's bound on acceptance, 1 - sqrt(0.2 H), is 0.1 there.
  float unsure_nats = 4.0f;
  // Paths less probable than this are never followed.
  double least_reach = 0.02;
};

}  // namespace edgedec::engine
