#include "experts/store.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>

#include "common/os/clock.h"
#include "common/os/memory.h"

namespace edgedec::experts {
namespace {

uint64_t nanoseconds() { return static_cast<uint64_t>(1e9 * os::monotonic_s()); }

constexpr int64_t kMostStores = 64;
Store* stores[kMostStores];  // number n is at n - 1
Mutex stores_mutex;

}  // namespace

Store* Store::numbered(int64_t number) {
  const Guard guard(stores_mutex);
  return number > 0 && number <= kMostStores ? stores[number - 1] : nullptr;
}

int64_t Store::list(Store* store) {
  const Guard guard(stores_mutex);
  for (int64_t i = 0; i < kMostStores; ++i)
    if (!stores[i]) {
      stores[i] = store;
      return i + 1;
    }
  return 0;
}

Store* Store::unlist(int64_t number) {
  const Guard guard(stores_mutex);
  if (number < 1 || number > kMostStores) return nullptr;
  Store* found = stores[number - 1];
  stores[number - 1] = nullptr;
  return found;
}

int64_t checksum(const uint8_t* expert, size_t bytes) {
  uint64_t sum = 0, weighted = 0;
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, expert + at, sizeof word);
    sum += word;
    weighted += sum;
  }
  return static_cast<int64_t>(2 * weighted - sum);
}

Store* Store::open(const char* path, const Options& options, int* error) {
  const os::File file = os::open_for_places(path, options.direct);
  size_t bytes = 0;
  if (file == os::kNoFile || __builtin_mul_overflow(options.slots, options.slot_bytes, &bytes) || bytes == 0) {
    *error = file == os::kNoFile ? errno : EINVAL;
    if (file != os::kNoFile) os::close(file);
    return nullptr;
  }
  void* memory = os::reserve_pages(bytes);
  Store* made = !memory ? nullptr : new (std::nothrow) Store(file, options, static_cast<uint8_t*>(memory));
  if (made) return made;
  *error = ENOMEM;
  if (memory) os::return_pages(memory, bytes);
  os::close(file);
  return nullptr;
}

Store::Store(os::File file, const Options& options, uint8_t* memory)
    : file_(file), options_(options), memory_(memory), slots_(options.slots), limit_(options.slots) {
  os::prefer_large_pages(memory, options.slots * options.slot_bytes);
}

Store::~Store() {
  {
    const Guard guard(mutex_);
    over_ = true;
    work_.wake_all();
  }
  for (os::Thread& lane : lanes_) lane.join();
  os::return_pages(memory_, options_.slots * options_.slot_bytes);
  os::close(file_);
}

int Store::add_layer(uint64_t offset, size_t bytes, int experts, const int64_t* checks) {
  const Guard guard(mutex_);
  if (bytes > options_.slot_bytes) return -1;
  for (const Layer& layer : layers_)
    if (layer.offset == offset && layer.bytes == bytes && layer.experts == experts) return layer.first;
  const auto first = static_cast<int>(experts_.size()), layer = static_cast<int>(layers_.size());
  layers_.push_back({offset, bytes, experts, first});
  for (int e = 0; e < experts; ++e)
    experts_.push_back({offset + bytes * static_cast<size_t>(e), bytes, checks ? checks[e] : 0, checks != nullptr, layer, -1, 0.0, 0.0});
  return first;
}

bool Store::hold(int first, int* wanted, int count, int* slots) {
  const Guard guard(mutex_);
  int there;
  while ((there = hold_resident(first, wanted, count, slots)) < 0) {
    if (!left_by_passes()) return false;
    read_.wait(mutex_);
  }
  count_pass(experts_[static_cast<size_t>(first)].layer, wanted, count);
  for (int i = there; i < count; ++i) {
    const int number = first + wanted[i];
    slots[i] = experts_[static_cast<size_t>(number)].slot = take_slot();
    Slot& slot = slots_[static_cast<size_t>(slots[i])];
    slot = {number, 1, 0, State::kWaiting};
    waiting_.push_back(slots[i]);
  }
  if (trace_.size() + 1 + static_cast<size_t>(count) <= most_traced_) {
    trace_.push_back(count);
    for (int i = 0; i < count; ++i) trace_.push_back(first + wanted[i]);
  }
  counts_.held += static_cast<uint64_t>(count), counts_.hits += static_cast<uint64_t>(there);
  if (there < count) {
    start_lanes();
    work_.wake_all();
  }
  return true;
}

// Puts the wanted experts that are in slots first, holds them and returns their number; -1, and holds none, where the others find
// too few slots that nobody holds.
int Store::hold_resident(int first, int* wanted, int count, int* slots) {
  int there = 0, free = 0;
  for (int i = 0; i < count; ++i) {  // those that are there first: their slots must not be taken for others
    const Expert& expert = experts_[static_cast<size_t>(first + wanted[i])];
    if (expert.slot < 0) continue;
    const int one = wanted[i];
    for (int j = i; j > there; --j) wanted[j] = wanted[j - 1];
    wanted[there] = one;
    slots[there++] = expert.slot;
  }
  for (int i = 0; i < there; ++i) ++slots_[static_cast<size_t>(slots[i])].holders;
  for (const Slot& slot : slots_) free += slot.expert >= 0 && slot.holders == 0;
  free += static_cast<int>(limit_ > used_ ? limit_ - used_ : 0);
  if (free >= count - there) return there;
  for (int i = 0; i < there; ++i) --slots_[static_cast<size_t>(slots[i])].holders;
  return -1;
}

// Whether a slot is read into that no pass waits for any more: it is soon free.
bool Store::left_by_passes() const {
  for (const Slot& slot : slots_)
    if (slot.state == State::kReading && slot.holders == 1) return true;
  return false;
}

// A slot without an expert, while there may be more; else that of the expert that goes.
int Store::take_slot() {
  int slot = -1;
  for (size_t i = 0; slot < 0 && used_ < limit_ && i < slots_.size(); ++i)
    if (slots_[i].expert < 0) slot = static_cast<int>(i);
  if (slot < 0) empty_slot(slot = last_expected());
  ++used_;
  return slot;
}

// The slot, held by nobody, of the expert that is expected to be held again last; -1: there is none.
int Store::last_expected() const {
  const auto layers = static_cast<int>(layers_.size());
  int best = -1, least = 0;
  double longest = 0.0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.holders > 0 || slot.expert < 0) continue;
    const Expert& expert = experts_[static_cast<size_t>(slot.expert)];
    const int ahead = (expert.layer - layer_ - 1 + layers) % layers + 1;
    const double wait = 1.0 / (0.25 * expert.recent + 0.75 * expert.usual) + static_cast<double>(ahead) / layers;
    if (best >= 0 && (wait == longest ? slot.expert > least : wait < longest)) continue;
    best = static_cast<int>(i), least = slot.expert, longest = wait;
  }
  return best;
}

void Store::empty_slot(int number) {
  Slot& slot = slots_[static_cast<size_t>(number)];
  experts_[static_cast<size_t>(slot.expert)].slot = -1;
  --used_;
  slot = Slot();
}

// Gives slots beyond the limit back to the system.
void Store::shrink() {
  for (int slot; used_ > limit_ && (slot = last_expected()) >= 0;) {
    empty_slot(slot);
    os::give_back(memory_ + static_cast<size_t>(slot) * options_.slot_bytes, options_.slot_bytes);
  }
}

void Store::limit(size_t slots) {
  const Guard guard(mutex_);
  limit_ = slots < options_.slots ? slots : options_.slots;
  shrink();
}

size_t Store::slots() const {
  const Guard guard(mutex_);
  return limit_;
}

void Store::count_pass(int layer, const int* wanted, int count) {
  static const double recent = std::exp2(-1.0 / kRecentHalfLife), usual = std::exp2(-1.0 / kUsualHalfLife);
  const Layer& all = layers_[static_cast<size_t>(layer)];
  Expert* experts = &experts_[static_cast<size_t>(all.first)];
  for (int e = 0; e < all.experts; ++e) experts[e].recent *= recent, experts[e].usual *= usual;
  for (int i = 0; i < count; ++i) experts[wanted[i]].recent += 1.0 - recent, experts[wanted[i]].usual += 1.0 - usual;
  layer_ = layer;
}

bool Store::ready(int slot) const {
  const Guard guard(mutex_);
  const State state = slots_[static_cast<size_t>(slot)].state;
  return state == State::kReady || state == State::kFailed;
}

const uint8_t* Store::wait(int slot, int* error) {
  const Guard guard(mutex_);
  const Slot& held = slots_[static_cast<size_t>(slot)];
  const auto waits = [&] { return !interrupted_ && (held.state == State::kWaiting || held.state == State::kReading); };
  if (held.state == State::kWaiting || held.state == State::kReading) {
    const uint64_t start = nanoseconds();
    while (lanes_.empty() && waits() && held.state == State::kWaiting) read_next();  // the system starts no thread
    while (waits()) read_.wait(mutex_);
    counts_.nanoseconds_waited += nanoseconds() - start;
  }
  if (interrupted_) return *error = EINTR, nullptr;
  if (held.state == State::kReady) return memory_ + static_cast<size_t>(slot) * options_.slot_bytes;
  *error = held.error;
  return nullptr;
}

void Store::interrupt(bool now) {
  const Guard guard(mutex_);
  interrupted_ = now;
  read_.wake_all();
}

void Store::release(const int* slots, int count) {
  const Guard guard(mutex_);
  for (int i = 0; i < count; ++i) {
    Slot& slot = slots_[static_cast<size_t>(slots[i])];
    if (--slot.holders > 0 || slot.state == State::kReady) continue;
    // Nobody waited for it: a pass ended early, or its read failed. The next one reads again.
    for (size_t at = 0; at < waiting_.size(); ++at)
      if (waiting_[at] == slots[i]) {
        waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(at));
        break;
      }
    if (slot.state == State::kReading) continue;  // it becomes ready, and stays
    empty_slot(slots[i]);
  }
  shrink();
}

StoreCounts Store::counts() const {
  const Guard guard(mutex_);
  return counts_;
}

void Store::trace(size_t most) {
  const Guard guard(mutex_);
  most_traced_ = most;
  trace_.clear();
  trace_.reserve(most);
}

size_t Store::traced(int* numbers, size_t room) const {
  const Guard guard(mutex_);
  const size_t count = trace_.size() < room ? trace_.size() : room;
  if (count) std::memcpy(numbers, trace_.data(), count * sizeof(int));
  return count;
}

void Store::start_lanes() {
  while (static_cast<int>(lanes_.size()) < options_.lanes) {
    os::Thread lane;
    const auto run = [](void* store) -> void* {
      static_cast<Store*>(store)->read_until_over();
      return nullptr;
    };
    if (!lane.start(run, this)) break;
    lanes_.push_back(lane);
  }
}

void Store::read_until_over() {
  const Guard guard(mutex_);
  while (!over_)
    if (waiting_.empty())
      work_.wait(mutex_);
    else
      read_next();
}

// Reads the expert that has waited longest. The lock is free meanwhile.
void Store::read_next() {
  const int number = waiting_.front();
  waiting_.erase(waiting_.begin());
  Slot& slot = slots_[static_cast<size_t>(number)];
  slot.state = State::kReading;
  ++slot.holders;  // also of a pass that ends early: the slot is written to
  const Expert expert = experts_[static_cast<size_t>(slot.expert)];
  int error;
  {
    const Unguarded meanwhile(mutex_);
    error = read_expert(expert, memory_ + static_cast<size_t>(number) * options_.slot_bytes);
  }
  slot.error = error;
  slot.state = error ? State::kFailed : State::kReady;
  counts_.bytes_read += error ? 0 : expert.bytes;
  if (--slot.holders == 0 && error) empty_slot(number);
  read_.wake_all();
}

int Store::read_expert(const Expert& expert, uint8_t* to) const {
  bool direct = options_.direct;
  for (size_t done = 0; done < expert.bytes;) {
    const int64_t got = os::read_at(file_, to + done, expert.bytes - done, expert.offset + done);
    if (got < 0 && errno == EINVAL && direct) {
      direct = false;
      os::read_through_cache(file_);
      continue;
    }
    if (got <= 0) return got < 0 ? errno : ENODATA;
    done += static_cast<size_t>(got);
  }
  return expert.checked && checksum(to, expert.bytes) != expert.check ? EBADMSG : 0;
}

}  // namespace edgedec::experts
