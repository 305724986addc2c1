// Experts of a file on a disk, in a bounded number of slots in memory.
//
// A pass holds the experts that it computes with; those that are in no slot are read into one, several at once, while it computes
// with the others. A slot that nobody holds keeps its expert until another needs the room: the one goes that is expected to be held
// again last.
//
// A pass of its layer holds an expert with probability p = recent / 4 + usual * 3 / 4: two means of its last passes, 1 where they held
// it and 0 where not, in which passes count half as much kRecentHalfLife and kUsualHalfLife passes later. So it is held again in
// 1 / p passes, and within a pass the layers follow each other: 1 / p + layers until its own / layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/lock.h"
#include "common/os/files.h"

namespace edgedec::experts {

struct StoreCounts {
  uint64_t held, hits, bytes_read, nanoseconds_waited;
};

// The check of an expert's bytes, a multiple of eight: packing/experts.py defines it.
int64_t checksum(const uint8_t* expert, size_t bytes);

class Store {
 public:
  // Stores have numbers, by which graphs name them. Null where none has that number.
  static Store* numbered(int64_t number);
  // Lists a store and returns its number, above 0; or 0 where too many are open.
  static int64_t list(Store* store);
  // Takes it off the list, and returns it or null. No pass may use it any more.
  static Store* unlist(int64_t number);

  static constexpr double kRecentHalfLife = 1.0, kUsualHalfLife = 16.0;

  struct Options {
    size_t slot_bytes, slots;
    int lanes;    // reads at once
    bool direct;  // past the system's cache
  };

  // Null where the file cannot be opened, or memory is short; `error` is errno then.
  static Store* open(const char* path, const Options& options, int* error);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Bounds how many experts lie in memory, at most options.slots. Those beyond that go once nobody holds them.
  void limit(size_t slots);
  size_t slots() const;

  // The number of a layer's first expert. Its experts lie from `offset` on in the file, each `bytes` long; asking again for the
  // same ones gives the same number. Negative where an expert fits no slot.
  // With `checks`, one for each, an expert that is read and has another checksum() is an error: EBADMSG.
  int add_layer(uint64_t offset, size_t bytes, int experts, const int64_t* checks = nullptr);

  // Holds the experts `first` + wanted[i], and puts those that are there before those that are read. False where other passes hold so
  // many slots that too few are left: nothing is held then. `slots` gets the slot of each.
  bool hold(int first, int* wanted, int count, int* slots);

  // The weights in a held slot, once they are read; null where that failed, with errno in `error`.
  const uint8_t* wait(int slot, int* error);
  // While `now`, every wait() ends at once, in EINTR.
  void interrupt(bool now);
  // Whether wait() would not wait.
  bool ready(int slot) const;

  void release(const int* slots, int count);

  StoreCounts counts() const;

  // Notes what passes hold from now on, each time how many experts and which, while all of it is at most `most` numbers.
  void trace(size_t most);
  // Those numbers, or as many as there is room for; returns how many.
  size_t traced(int* numbers, size_t room) const;

 private:
  enum class State { kEmpty, kWaiting, kReading, kReady, kFailed };
  struct Expert {
    uint64_t offset;
    size_t bytes;
    int64_t check;
    bool checked;
    int layer, slot;  // -1: in none
    double recent, usual;
  };
  struct Slot {
    int expert = -1, holders = 0, error = 0;
    State state = State::kEmpty;
  };
  struct Layer {
    uint64_t offset;
    size_t bytes;  // of each expert
    int experts, first;
  };

  Store(os::File file, const Options& options, uint8_t* memory);
  int hold_resident(int first, int* wanted, int count, int* slots);
  bool left_by_passes() const;
  int take_slot();
  int last_expected() const;
  void empty_slot(int number);
  void shrink();
  void count_pass(int layer, const int* wanted, int count);
  void start_lanes();
  void read_until_over();
  void read_next();
  int read_expert(const Expert& expert, uint8_t* to) const;

  const os::File file_;
  const Options options_;
  uint8_t* const memory_;
  std::vector<Slot> slots_;
  std::vector<Expert> experts_;
  std::vector<Layer> layers_;
  std::vector<int> waiting_;  // slots, in the order in which they are to be read
  std::vector<int> trace_;
  size_t most_traced_ = 0;
  std::vector<os::Thread> lanes_;
  mutable Mutex mutex_;
  Condition work_, read_;  // a slot waits to be read; one was
  StoreCounts counts_{};
  size_t limit_, used_ = 0;  // slots that may have an expert, and those that have one
  int layer_ = 0;            // the one of which a pass held experts last
  bool over_ = false, interrupted_ = false;
};

}  // namespace edgedec::experts
