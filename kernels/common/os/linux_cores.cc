// Cores of Linux and Android: affinity, control groups, and files of the system.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>

#include "common/os/clock.h"
#include "common/os/files.h"
#include "common/os/process.h"

namespace edgedec::os {
namespace {

constexpr size_t kMostBytes = 1 << 22;  // of a file of the system
constexpr double kFast = 0.8;           // part of the highest frequency that a fast core has

// The content of a file of the system, without blanks at its end; nothing where it cannot be read.
std::string system_file(const std::string& path) {
  std::string text;
  const File file = open_to_read(path.c_str());
  if (file == kNoFile) return text;
  char piece[4096];
  for (int64_t got; (got = read(file, piece, sizeof piece)) > 0 && text.size() < kMostBytes;) text.append(piece, static_cast<size_t>(got));
  close(file);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// The number at the beginning of a text; 0 where none is. Not by strtod, whose decimal point is that of a language.
double real_of(std::string_view text) {
  double digits = 0.0, scale = 1.0;
  bool point = false;
  for (const char one : text) {
    if (one == '.' && !point) {
      point = true;
    } else if (one >= '0' && one <= '9') {
      digits = 10.0 * digits + (one - '0');
      scale *= point ? 10.0 : 1.0;
    } else {
      break;
    }
  }
  return digits / scale;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> found;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) found.push_back(cpu);
  if (found.empty()) found.push_back(0);
  return found;
}

std::string cpu_file(int cpu, const char* name) {
  return system_file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + name);
}

// quota / period in cores, rounded up; 0 for no quota.
int quota_of(std::string_view quota, std::string_view period) {
  const double most = real_of(quota), each = real_of(period);
  return most > 0.0 && each > 0.0 ? static_cast<int>(std::ceil(most / each)) : 0;
}

// Lowers `*least` to the quota of a control group and of those above it.
void see_group(const std::string& root, std::string path, bool second_version, int* least) {
  for (;;) {
    const std::string group = root + path;
    int quota = 0;
    if (second_version) {
      const std::string text = system_file(group + "/cpu.max");
      const size_t space = text.find(' ');
      if (space != std::string::npos) quota = quota_of(text.substr(0, space), text.substr(space + 1));
    } else {
      quota = quota_of(system_file(group + "/cpu.cfs_quota_us"), system_file(group + "/cpu.cfs_period_us"));
    }
    if (quota > 0) *least = std::min(*least, quota);
    if (path.empty()) return;
    path.resize(path.rfind('/'));
  }
}

// The CPU quota of this process; `most` without one.
int quota_cores(int most) {
  const std::string groups = system_file("/proc/self/cgroup");
  for (size_t at = 0; at < groups.size();) {
    const size_t end = std::min(groups.find('\n', at), groups.size());
    const std::string line = groups.substr(at, end - at);
    at = end + 1;
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path.find("..") != std::string::npos || path.empty() || path[0] != '/') continue;
    if (path.back() == '/') path.pop_back();
    const std::string root = "/sys/fs/cgroup";
    Facts found;
    if (controllers.empty()) see_group(root, path, true, &most);
    else if (("," + controllers + ",").find(",cpu,") != std::string::npos)
      see_group(facts((root + "/" + controllers + "/cpu.cfs_quota_us").c_str(), &found) ? root + "/" + controllers : root + "/cpu",
                path, false, &most);
  }
  return most;
}

}  // namespace

int usable_cores() {
  const int allowed = static_cast<int>(allowed_cpus().size());
  return quota_cores(allowed);
}

int physical_cores() {
  const std::vector<int> cpus = allowed_cpus();
  std::vector<std::string> siblings;
  std::vector<double> speeds;
  for (int cpu : cpus) {
    std::string name = cpu_file(cpu, "topology/thread_siblings_list");
    if (name.empty()) name = std::to_string(cpu);
    if (std::find(siblings.begin(), siblings.end(), name) != siblings.end()) continue;
    siblings.push_back(std::move(name));
    speeds.push_back(real_of(cpu_file(cpu, "cpufreq/cpuinfo_max_freq")));
  }
  int count = static_cast<int>(siblings.size());
#if defined(__aarch64__)
  const double best = *std::max_element(speeds.begin(), speeds.end());
  count = static_cast<int>(std::count_if(speeds.begin(), speeds.end(), [&](double one) { return one >= kFast * best; }));
#else
  (void)kFast;
#endif
  return std::max(std::min(count, usable_cores()), 1);
}

std::optional<double> load_average() {
  const std::string text = system_file("/proc/loadavg");
  if (text.empty()) return {};
  return real_of(text);
}

std::string cpu_name() {
  const std::string info = system_file("/proc/cpuinfo");
  for (std::string_view wanted : {"model name", "Hardware"})
    for (size_t at = 0; at < info.size();) {
      const size_t end = std::min(info.find('\n', at), info.size());
      const std::string_view line = std::string_view(info).substr(at, end - at);
      at = end + 1;
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos || line.substr(0, wanted.size()) != wanted) continue;
      const std::string_view value = line.substr(colon + 1);
      const size_t first = value.find_first_not_of(" \t"), last = value.find_last_not_of(" \t");
      if (first != std::string_view::npos) return std::string(value.substr(first, last - first + 1));
    }
  return "unknown";
}

}  // namespace edgedec::os
