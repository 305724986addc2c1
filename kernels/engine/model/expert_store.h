// Experts of a model that are read from the disk as passes need them: a store of kernels/experts over the file of the weights.
// edgedec/backends/onnx/expert_store.py.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/control/costs.h"
#include "core/model_spec.h"
#include "experts/store.h"

namespace edgedec::engine {

// The memory that a model may take.
struct ModelPlace {
  int64_t memory = 0;  // bytes of the whole process; 0: what the machine has left
  int64_t beside = 0;  // of either, that weights of drafters need
};

class ExpertStore {
 public:
  // Makes the store for the experts in `weights`, a file of so many bytes, where there is no room for all of them; none for a
  // model without experts, or with room. kBadFile, kBackend.
  static Status open(const std::string& weights, const ModelSpec& spec, int64_t bytes, const ModelPlace& place,
                     std::unique_ptr<ExpertStore>* store);
  ~ExpertStore() { delete experts::Store::unlist(number_); }
  ExpertStore(const ExpertStore&) = delete;
  ExpertStore& operator=(const ExpertStore&) = delete;

  int64_t number() const { return number_; }
  const Experts& sizes() const { return sizes_; }
  // Whether reads go past the system's cache.
  bool direct() const { return direct_; }
  // Experts in memory at a time, and the most that a plan may have.
  int64_t slots() const { return slots_; }
  int64_t most() const { return most_; }
  void limit(int64_t slots);
  experts::StoreCounts counts() const { return store_->counts(); }
  // What passes read since the counts were `before`.
  PassReads since(const experts::StoreCounts& before) const;

 private:
  ExpertStore() = default;

  experts::Store* store_ = nullptr;  // on the list, which has it
  int64_t number_ = 0, slots_ = 0, most_ = 0;
  bool direct_ = false;
  Experts sizes_;
};

}  // namespace edgedec::engine
