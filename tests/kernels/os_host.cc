// Calls of common/os, to run with sanitizers: files read in pieces, at places, past the cache and by mapping; pages taken,
// given back and returned; threads that wait, take turns and keep memory of their own. Prints "done". Argument: a folder.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/mapped_file.h"
#include "common/os/files.h"
#include "common/os/library.h"
#include "common/os/memory.h"
#include "common/os/process.h"
#include "common/os/threads.h"

namespace {

using namespace edgedec;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

void files(const std::string& folder) {
  const std::string path = folder + "/one", other = folder + "/two";
  std::vector<uint8_t> data(300000), room(data.size());
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7 + i / 255);
  os::File file = os::create_new(path.c_str());
  expect(os::create_new(path.c_str()) == os::kNoFile, "a file that is there is not made again");
  const auto all = static_cast<int64_t>(data.size());
  expect(os::write(file, data.data(), data.size()) == all && os::flush(file) && os::close(file), "written");
  file = os::open_to_read(path.c_str());
  size_t at = 0;
  for (int64_t n = 1; n > 0; at += static_cast<size_t>(n))
    n = os::read(file, room.data() + at, std::min<size_t>(room.size() - at, 7001));
  expect(at == data.size() && room == data, "read in pieces");
  os::Facts facts;
  expect(os::facts(file, &facts) && facts.regular && facts.size == data.size(), "facts");
  expect(os::read_at(file, room.data(), 100, data.size() - 10) == 10, "the end");
  expect(!std::memcmp(room.data(), &data[data.size() - 10], 10), "its bytes");
  void* mapped = os::map(file, data.size());
  expect(mapped && !std::memcmp(mapped, data.data(), data.size()), "mapped");
  expect(os::mapped_spans(path).size() == 1, "where it is mapped");
  {
    const MappedFile pieces(static_cast<const uint8_t*>(mapped), data.size());
    expect(!std::memcmp(pieces.read(data.size() - 77, 77, room.data()), &data[data.size() - 77], 77), "a piece of it");
  }
  os::map_ahead(path.c_str(), 4096);
  os::read_ahead(path.c_str(), 0, data.size() * 2);
  os::unmap(mapped, data.size());
  os::forget_cached(file, 0, data.size());
  expect(os::close(file), "closed");
  const os::File places = os::open_for_places(path.c_str(), true);
  const size_t page = os::page_bytes(), whole = (data.size() + page - 1) / page * page;
  auto* pages = static_cast<uint8_t*>(os::take_pages(whole));
  if (os::read_at(places, pages, whole, 0) < 0) os::read_through_cache(places);
  expect(os::read_at(places, pages, whole, 0) == all, "past the cache");
  expect(!std::memcmp(pages, data.data(), data.size()), "the same bytes");
  os::close(places);
  os::give_back(pages, whole);
  pages[whole - 1] = 1;
  os::return_pages(pages, whole);
  std::string real;
  expect(os::replace(path.c_str(), other.c_str()) && os::real_path(other.c_str(), &real), "renamed");
  expect(!os::is_link(other.c_str()), "no link");
  expect(os::open_to_read(path.c_str()) == os::kNoFile && os::remove_file(other.c_str()), "removed");
}

void memory() {
  auto* reserved = static_cast<char*>(os::reserve_pages(size_t{1} << 30));
  os::prefer_small_pages(reserved, size_t{1} << 30);
  reserved[(size_t{1} << 30) - 1] = 1;
  os::return_pages(reserved, size_t{1} << 30);
  for (size_t bytes : {size_t{1}, size_t{63}, size_t{5000}}) {
    void* aligned = os::take_aligned(64, bytes);
    expect(reinterpret_cast<uintptr_t>(aligned) % 64 == 0, "aligned");
    std::memset(aligned, 1, bytes);
    os::free_aligned(aligned);
  }
  os::trim_heap();
  expect(os::rss_bytes() > 0 && os::peak_rss_bytes() >= os::rss_bytes() / 2 && os::available_bytes() != 0, "counted");
  expect(os::usable_cores() >= os::physical_cores() && os::physical_cores() > 0 && !os::cpu_name().empty(), "cores");
  std::string why;
  expect(!os::load_library("/nowhere/lib.so", &why) && !why.empty(), "a library that is not there");
}

os::Mutex mutex;
os::Condition turned;
os::ThreadSlot slot;
os::OnceFlag flag = os::kNotYet;
int turn = 0, begun = 0;
std::atomic<int> ended{0};
constexpr int kThreads = 6, kTurns = 200;

void* take_turns(void* number) {
  const int mine = static_cast<int>(reinterpret_cast<intptr_t>(number));
  os::call_once(&flag, [] { ++begun; });
  slot.set(std::malloc(100));
  for (int round = 0; round < kTurns; ++round) {
    mutex.lock();
    while (turn % kThreads != mine) turned.wait(mutex);
    ++turn;
    turned.wake_all();
    mutex.unlock();
    os::yield();
  }
  return nullptr;
}

void threads() {
  expect(slot.make([](void* kept) { std::free(kept), ++ended; }), "a slot");
  os::Thread all[kThreads];
  for (intptr_t i = 0; i < kThreads; ++i) expect(all[i].start(take_turns, reinterpret_cast<void*>(i)), "started");
  for (os::Thread& one : all) one.join();
  expect(turn == kThreads * kTurns && begun == 1 && ended == kThreads, "turns");
}

}  // namespace

int main(int, char** words) {
  files(words[1]);
  memory();
  threads();
  std::puts("done");
}
