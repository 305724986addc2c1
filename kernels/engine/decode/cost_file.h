// The file that keeps what a model's passes cost, when that was measured, and under which load:
// edgedec/costs/cost_file.py.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/control/linear_fit.h"

namespace edgedec::engine {

// A point in time and the machine's state then.
struct Moment {
  double at = 0.0;  // seconds since 1970
  std::optional<double> load;
  double plain_s = 0.0;  // seconds that a pass over one token took
};

// Seconds of passes by their number of tokens: ratios as measured, at the level of the moment `kept`.
//
// Ratios hold at any load. Corrections of them count in the process that made them: else some interrupted passes would
// make drafts look too dear in all replies to come, in which such passes never ran again.
struct KeptCosts {
  Points seconds;
  Moment measured, kept;
  bool doubted = false;  // whether passes ran otherwise than measured

  // These costs with what replies showed: `seconds` now, at the moment `kept`.
  KeptCosts corrected(const Points& now, const Moment& moment) const;
  // Whether to go on with these costs; if not, they are measured again.
  bool stands(double now) const;
};

// Tells the time of day and the load of the machine.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual double wall_s();
  virtual std::optional<double> load();
};

// The costs of one model, on one machine, with one number of threads.
class CostFile {
 public:
  // Names the file in `folder` after all that the ratios of costs depend on.
  CostFile(const std::string& folder, std::vector<std::string> conditions, Surroundings* surroundings);

  const std::string& path() const { return path_; }
  // The costs measured before; none if there are none, or the file is damaged.
  std::optional<KeptCosts> read() const;
  Status write(const KeptCosts& costs) const;
  Moment moment(const Points& seconds) const;
  double now() const { return surroundings_->wall_s(); }

 private:
  std::string path_;
  std::vector<std::string> conditions_;
  Surroundings* surroundings_;
};

// Reads the text of such a file; none where it is damaged.
std::optional<KeptCosts> read_costs(std::string_view text);

}  // namespace edgedec::engine
