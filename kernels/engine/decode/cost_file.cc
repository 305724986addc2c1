#include "engine/decode/cost_file.h"

#include <algorithm>
#include <cmath>

#include "common/os/clock.h"
#include "engine/base/files.h"
#include "core/base/json.h"
#include "engine/base/sha256.h"

namespace edgedec::engine {
namespace {

constexpr double kDisagrees = 2.0;        // factor between costs measured and run from which the measurement is doubted
constexpr double kDoubtedForS = 3600.0;   // a measurement stands for so long, doubted or not
constexpr size_t kMostCostBytes = 1 << 16;
constexpr size_t kMostPoints = 64;
constexpr int64_t kMostTokens = 4096;

// Whether the measurement is off by a factor of two: passes over one token take half the time of those measured, which
// then ran under load; or a cost in relation to one token is twice or half of the one kept.
bool disagrees(const KeptCosts& costs, const Points& now) {
  if (costs.measured.plain_s >= kDisagrees * now[0].second) return true;
  for (const auto& [tokens, kept] : costs.seconds)
    for (const auto& [other, seconds] : now)
      if (tokens == other &&
          std::fabs(std::log(seconds / now[0].second * costs.seconds[0].second / kept)) >= std::log(kDisagrees))
        return true;
  return false;
}

bool read_moment(JsonValue data, Moment* moment) {
  if (data.size() != 3 || !data["at"].number() || !data["plain_s"].number()) return false;
  if (!data["load"].is_null() && !data["load"].number()) return false;
  *moment = {*data["at"].number(), data["load"].number(), *data["plain_s"].number()};
  return true;
}

// The number of tokens that a key states; 0 for none.
int tokens_of(std::string_view key) {
  int64_t tokens = 0;
  for (char one : key) {
    if (one < '0' || one > '9' || tokens > kMostTokens) return 0;
    tokens = tokens * 10 + (one - '0');
  }
  return tokens <= kMostTokens ? static_cast<int>(tokens) : 0;
}

void write_moment(const Moment& moment, JsonWriter* out) {
  out->begin_object().key("at").real(moment.at).key("load");
  moment.load ? out->real(*moment.load) : out->null();
  out->key("plain_s").real(moment.plain_s).end_object();
}

}  // namespace

double Surroundings::wall_s() { return os::wall_s(); }
std::optional<double> Surroundings::load() { return os::load_average(); }

KeptCosts KeptCosts::corrected(const Points& now, const Moment& moment) const {
  KeptCosts costs = *this;
  costs.doubted = doubted || disagrees(*this, now);
  const double level = now[0].second / seconds[0].second;
  for (auto& point : costs.seconds) point.second = level * point.second;
  costs.kept = moment;
  return costs;
}

bool KeptCosts::stands(double now) const { return !doubted || now - measured.at < kDoubtedForS; }

CostFile::CostFile(const std::string& folder, std::vector<std::string> conditions, Surroundings* surroundings)
    : conditions_(std::move(conditions)), surroundings_(surroundings) {
  std::string all;
  for (const std::string& one : conditions_) all += (all.empty() ? "" : "|") + one;
  path_ = path_in(folder, sha256_of(all).substr(0, 24) + ".json");
}

std::optional<KeptCosts> CostFile::read() const {
  std::string text;
  if (!read_file(path_, kMostCostBytes, &text).ok()) return {};
  return read_costs(text);
}

std::optional<KeptCosts> read_costs(std::string_view text) {
  Json json;
  if (!json.parse(text)) return {};
  const JsonValue found = json.root();
  KeptCosts costs;
  const JsonValue seconds = found["seconds"];
  if (!seconds.is_object() || seconds.size() > kMostPoints || !found["doubted"].flag()) return {};
  for (size_t i = 0; i < seconds.size(); ++i) {
    const int tokens = tokens_of(seconds.at(i).key());
    const double time = seconds.at(i).number().value_or(0.0);
    if (tokens < 1 || !(time > 0.0) || !std::isfinite(time)) return {};
    costs.seconds.emplace_back(tokens, time);
  }
  std::sort(costs.seconds.begin(), costs.seconds.end());
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (costs.seconds.empty() || costs.seconds[0].first != 1) return {};
  if (std::adjacent_find(costs.seconds.begin(), costs.seconds.end(), same) != costs.seconds.end()) return {};
  if (!read_moment(found["measured"], &costs.measured) || !read_moment(found["kept"], &costs.kept)) return {};
  costs.doubted = *found["doubted"].flag();
  return costs;
}

Moment CostFile::moment(const Points& seconds) const {
  const double at = surroundings_->wall_s();
  return {at, surroundings_->load(), seconds[0].second};
}

Status CostFile::write(const KeptCosts& costs) const {
  JsonWriter out;
  out.begin_object().key("conditions").begin_list();
  for (const std::string& one : conditions_) out.text(one);
  out.end_list().key("seconds").begin_object();
  for (const auto& [tokens, time] : costs.seconds) out.key(JsonWriter().whole(tokens).str()).real(time);
  out.end_object();
  write_moment(costs.measured, &out.key("measured"));
  write_moment(costs.kept, &out.key("kept"));
  out.key("doubted").flag(costs.doubted).end_object();
  return write_file(path_, out.str());
}

}  // namespace edgedec::engine
