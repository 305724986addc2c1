#include "engine/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/files.h"
#include "core/base/format.h"
#include "core/base/json.h"

namespace edgedec::engine {
namespace {

constexpr size_t kMostBytes = 1 << 22;  // of a file of the system
constexpr double kFast = 0.8;           // part of the highest frequency that a fast core has

std::string system_file(const std::string& path) {
  std::string text;
  const Status read = read_file(path, kMostBytes, &text);
  if (!read.ok()) return {};
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
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
  return system_file("/sys/devices/system/cpu/cpu" + decimal(cpu) + "/" + name);
}

// quota / period in cores, rounded up; 0 for no quota.
int quota_of(std::string_view quota, std::string_view period) {
  const double most = parse_real(quota).value_or(0.0), each = parse_real(period).value_or(0.0);
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
    if (controllers.empty()) see_group(root, path, true, &most);
    else if (("," + controllers + ",").find(",cpu,") != std::string::npos)
      see_group(file_size(root + "/" + controllers + "/cpu.cfs_quota_us") >= 0 ? root + "/" + controllers : root + "/cpu", path,
                false, &most);
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
    if (name.empty()) name = decimal(cpu);
    if (std::find(siblings.begin(), siblings.end(), name) != siblings.end()) continue;
    siblings.push_back(std::move(name));
    speeds.push_back(parse_real(cpu_file(cpu, "cpufreq/cpuinfo_max_freq")).value_or(0.0));
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

Status check_threads(int threads) {
  const int most = usable_cores();
  if (threads >= 1 && threads <= most) return {};
  const std::string usable = most == 1 ? "1 core" : decimal(most) + " cores";
  return {Code::kUsage, decimal(threads) + " threads are not possible: this process may use " + usable,
          most > 1 ? "use 1 to " + decimal(most) : "use 1"};
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

}  // namespace edgedec::engine
