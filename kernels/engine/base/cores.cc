#include "engine/base/cores.h"

#include "common/os/process.h"
#include "core/base/format.h"

namespace edgedec::engine {

Status check_threads(int threads) {
  const int most = os::usable_cores();
  if (threads >= 1 && threads <= most) return {};
  const std::string usable = most == 1 ? "1 core" : decimal(most) + " cores";
  return {Code::kUsage, decimal(threads) + " threads are not possible: this process may use " + usable,
          most > 1 ? "use 1 to " + decimal(most) : "use 1"};
}

}  // namespace edgedec::engine
