// Costs that are made of other ones: a wrapper overrides what it changes.
#pragma once

#include "core/control/costs.h"

namespace edgedec::engine {

// Everything is as `inner`, which lives longer, has it.
class WrappedCosts : public Costs {
 public:
  explicit WrappedCosts(Costs& inner) : inner_(inner) {}

  int longest() const override { return inner_.longest(); }
  double plain() const override { return seconds(1); }
  double seconds(int tokens) const override { return inner_.seconds(tokens); }
  double price(double seconds, int tokens) const override { return inner_.price(seconds, tokens); }
  double expected(int tokens, double seconds, const PassReads* reads) override {
    return inner_.expected(tokens, seconds, reads);
  }
  bool observe(int tokens, double cost, bool plain) override { return inner_.observe(tokens, cost, plain); }
  bool doubt_level() override { return inner_.doubt_level(); }
  double worth(double accepted) const override { return inner_.worth(accepted); }
  void committed(size_t tokens) override { inner_.committed(tokens); }
  int sequences() const override { return inner_.sequences(); }
  SharedTrials* trials() override { return inner_.trials(); }
  bool plain_is_unclear() const override { return inner_.plain_is_unclear(); }
  bool level_is_old() const override { return inner_.level_is_old(); }
  double drift() const override { return inner_.drift(); }
  Points measured() const override { return inner_.measured(); }

 protected:
  bool inside(int tokens) const { return tokens >= 1 && tokens <= longest(); }

  Costs& inner_;
};

}  // namespace edgedec::engine
