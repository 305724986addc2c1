// One ledger for every byte: each holder leases its part of a budget. edgedec/core/ledger.py, as counts of one thread.
//
// Code that allocates more than a page takes a lease first, and returns it when the memory is free: caches, buffers of a
// pass, whole rows of logits, tables of drafters. Within a budget every name has a share, so that nothing takes memory
// planned for something else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/memory/footprint.h"

namespace edgedec::engine {

// The share of small allocations that nobody leases in full.
constexpr const char* kSlack = "slack";

class Ledger {
 public:
  // Without shares, leases are counted and never refused.
  Ledger() = default;
  // A ledger whose leases are booked in `above` as `name`, those of kSlack as kSlack. `above` outlives it.
  Ledger(Ledger* above, std::string name) : above_(above), name_(std::move(name)) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Replaces the shares; what is leased stays leased.
  void reshare(const std::vector<MemoryPart>& shares);
  // kMemoryBudget, which says how much is missing, when it does not fit.
  Status take(std::string_view name, int64_t bytes);
  void give_back(std::string_view name, int64_t bytes);

  int64_t held(std::string_view name) const;
  // The most bytes that a name had leased at once.
  int64_t most(std::string_view name) const;
  int64_t held() const;

 private:
  struct Entry {
    std::string name;
    int64_t share = 0, held = 0, most = 0;
  };
  Entry& entry(std::string_view name);
  const Entry* find(std::string_view name) const;

  std::string_view booked_as(std::string_view name) const { return name == kSlack ? name : std::string_view(name_); }

  Ledger* above_ = nullptr;
  std::string name_;
  bool limited_ = false;
  std::vector<Entry> entries_;
};

// Bytes of a ledger, held until the lease ends. The ledger outlives it.
class Lease {
 public:
  Lease() = default;
  Lease(Ledger* ledger, const char* name) : ledger_(ledger), name_(name) {}
  ~Lease() { release(); }
  Lease(Lease&& other) noexcept { swap(other); }
  Lease& operator=(Lease&& other) noexcept {
    swap(other);
    return *this;
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Holds at least `bytes` from now on.
  Status grow(int64_t bytes);
  // Holds at most `bytes` from now on.
  void shrink(int64_t bytes);
  void release() { shrink(0); }
  int64_t bytes() const { return bytes_; }

 private:
  void swap(Lease& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(name_, other.name_);
    std::swap(bytes_, other.bytes_);
  }

  Ledger* ledger_ = nullptr;
  const char* name_ = "";
  int64_t bytes_ = 0;
};

}  // namespace edgedec::engine
