// Passes of several threads over one store of experts, to run with a sanitizer: while others bound its slots, interrupt it, and
// shorten its file. Each expert that is handed out must be whole. Prints what happened, for the test to judge.
// Arguments: a file to write, and "race" to have a race.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "experts/store.h"

namespace {

using edgedec::experts::Store;

constexpr int kLayers = 3, kExperts = 24, kMost = 6, kThreads = 4, kPasses = 3000;
constexpr size_t kBytes = 4096, kSlots = 40, kWords = kBytes / sizeof(uint64_t);

const char* path;
std::atomic<int> held{0}, refused{0}, interrupted{0}, unread{0}, wrong{0};
std::atomic<bool> over{false};
int unguarded = 0;

void write_file(int experts) {
  const int file = open(path, O_WRONLY | O_CREAT, 0600);
  std::vector<uint64_t> words(kWords);
  for (int e = 0; e < experts; ++e) {
    std::fill(words.begin(), words.end(), static_cast<uint64_t>(e) + 1);
    if (pwrite(file, words.data(), kBytes, static_cast<off_t>(kBytes) * e) != static_cast<ssize_t>(kBytes)) std::exit(1);
  }
  if (ftruncate(file, static_cast<off_t>(kBytes) * experts)) std::exit(1);
  close(file);
}

bool whole(const uint8_t* data, int expert) {
  uint64_t words[kWords];
  std::memcpy(words, data, kBytes);
  for (uint64_t word : words)
    if (word != static_cast<uint64_t>(expert) + 1) return false;
  return true;
}

void pass(Store* store, const std::vector<int>& first, std::mt19937& draw) {
  const int layer = static_cast<int>(draw() % kLayers);
  std::vector<int> wanted, slots(kMost);
  for (int e = 0; e < kExperts && wanted.size() < kMost; ++e)
    if (draw() % 5 == 0) wanted.push_back(e);
  const auto count = static_cast<int>(wanted.size());
  if (!count) return;
  if (!store->hold(first[static_cast<size_t>(layer)], wanted.data(), count, slots.data())) return void(++refused);
  const int used = draw() % 4 ? count : count / 2;  // a pass may end early
  for (int i = 0; i < used; ++i) {
    int error = 0;
    store->ready(slots[static_cast<size_t>(i)]);
    const uint8_t* data = store->wait(slots[static_cast<size_t>(i)], &error);
    if (data)
      ++held, wrong += !whole(data, layer * kExperts + wanted[static_cast<size_t>(i)]);
    else
      ++(error == EINTR ? interrupted : unread);
  }
  store->release(slots.data(), count);
}

void disturb(Store* store, bool race) {
  std::mt19937 draw(99);
  while (!over) {
    store->limit(20 + draw() % 20);
    if (draw() % 16 == 0) {
      store->interrupt(true);
      usleep(100);
      store->interrupt(false);
    }
    if (draw() % 16 == 0) {
      write_file(kExperts);
      usleep(200);
      write_file(kLayers * kExperts);
    }
    if (race) ++unguarded;
    usleep(1000);
  }
}

}  // namespace

int main(int, char** arguments) {
  path = arguments[1];
  const bool race = arguments[2] != nullptr;
  write_file(kLayers * kExperts);
  int error = 0;
  Store* store = Store::open(path, {kBytes, kSlots, 3, false}, &error);
  if (!store) return std::perror("open"), 1;
  std::vector<int> first;
  for (int layer = 0; layer < kLayers; ++layer)
    first.push_back(store->add_layer(static_cast<uint64_t>(layer) * kExperts * kBytes, kBytes, kExperts));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 draw(static_cast<unsigned>(t));
      for (int i = 0; i < kPasses; ++i) {
        pass(store, first, draw);
        if (race) ++unguarded;
      }
    });
  std::thread other(disturb, store, race);
  for (std::thread& one : threads) one.join();
  over = true;
  other.join();
  const auto counts = store->counts();
  delete store;
  std::printf("%d held, %d refused, %d interrupted, %d unread, %d wrong\n", held.load(), refused.load(), interrupted.load(),
              unread.load(), wrong.load());
  return counts.held == 0;
}
