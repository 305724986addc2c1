// A team whose leader waits for something slow, in between two sections. Prints the milliseconds of processor time that the wait
// took of all threads, and the tasks that were done.
#include <ctime>

#include <atomic>
#include <cstdio>
#include <thread>

#include "common/team.h"

namespace {

std::atomic<int> done{0};
double waiting_ms = 0.0;

double cpu_ms() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

void lead(void* opaque) {
  edgedec::Team& team = **static_cast<edgedec::Team**>(opaque);
  auto body = [](size_t) { ++done; };
  for (int round = 0; round < 3; ++round) {
    edgedec::parallel_for(team, 100, body);
    team.pause(true);
    const double before = cpu_ms();
    timespec slow{0, 100'000'000};
    nanosleep(&slow, nullptr);
    waiting_ms += cpu_ms() - before;
    team.pause(false);
  }
  edgedec::parallel_for(team, 100, body);
}

}  // namespace

int main() {
  edgedec::Team* self = nullptr;
  edgedec::Team team(2, lead, &self);
  self = &team;
  std::thread helper([&] { team.join(); });
  team.join();
  helper.join();
  std::printf("%.1f %d\n", waiting_ms, done.load());
}
