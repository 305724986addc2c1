#include "engine/drafters/trim.h"

#include <algorithm>
#include <cstring>

#include "engine/base/files.h"
#include "core/base/format.h"
#include "engine/bundle/drafter_manifest.h"

namespace edgedec::engine {
namespace {

constexpr const char* kIds = "keep.i32";  // ascending, little-endian int32
constexpr const char* kSaved = "saved_share";
constexpr size_t kMostBytes = size_t{1} << 24;
constexpr const char* kAgain = "make it again, or remove it";

// Tokens that begin and end texts, ascending; every trimmed head keeps them.
std::vector<int64_t> ends_of(const Manifest& manifest) {
  std::vector<int64_t> ends(manifest.tokenizer.eos_ids.begin(), manifest.tokenizer.eos_ids.end());
  if (manifest.tokenizer.bos_id >= 0) ends.push_back(manifest.tokenizer.bos_id);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

// Names the fault of ids that a head is trimmed to; empty for sound ones.
std::string fault_of(const std::vector<int64_t>& ids, const Manifest& manifest) {
  if (ids.empty()) return "it keeps no tokens";
  for (size_t at = 1; at < ids.size(); ++at)
    if (ids[at] <= ids[at - 1]) return "its ids do not ascend";
  if (ids.front() < 0 || ids.back() >= manifest.spec.vocab_size)
    return "it has ids outside a vocabulary of " + decimal(manifest.spec.vocab_size);
  for (int64_t end : ends_of(manifest))
    if (!std::binary_search(ids.begin(), ids.end(), end)) return "it lacks the end token " + decimal(end);
  return {};
}

bool is_share(const double* saved) { return saved && *saved >= 0.0 && *saved <= 1.0; }

// Reads the ids that a bundle's trimmed head keeps, and the share that it saves; none where it has none.
Status read_kept(const std::string& bundle, const Manifest& manifest, std::vector<int64_t>* ids, double* share) {
  const std::string folder = carried(bundle, "trim");
  if (folder.empty()) return {};
  DrafterManifest found;
  EDGEDEC_TRY(DrafterManifest::load(folder, true, &found));
  EDGEDEC_TRY(found.check_for("trim", manifest.file(kWeightsFile)->sha256, manifest.spec.vocab_size));
  std::string data;
  if (!read_file(path_in(folder, kIds), kMostBytes, &data).ok())
    return {Code::kBadFile, folder + " has no " + kIds, kAgain};
  for (size_t at = 0; at + sizeof(int32_t) <= data.size(); at += sizeof(int32_t)) {
    int32_t id;
    std::memcpy(&id, data.data() + at, sizeof id);
    ids->push_back(id);
  }
  if (const std::string fault = fault_of(*ids, manifest); !fault.empty())
    return {Code::kBadFile, path_in(folder, kIds) + " is no trimmed head of " + manifest.name + ": " + fault, kAgain};
  const double* saved = found.number(kSaved);
  if (!is_share(saved))
    return {Code::kBadFile, folder + " does not say how much its trimmed head saves", kAgain};
  *share = *saved;
  return {};
}

}  // namespace

std::string carried(const std::string& bundle, const char* kind) {
  const std::string folder = path_in(path_in(bundle, "drafters"), kind);
  return file_size(path_in(folder, "drafter.json")) < 0 ? std::string() : folder;
}

double saved_share(const std::string& bundle) {
  const std::string folder = carried(bundle, "trim");
  DrafterManifest manifest;
  if (folder.empty() || !DrafterManifest::load(folder, false, &manifest).ok()) return 0.0;
  const double* saved = manifest.number(kSaved);
  return saved ? *saved : 0.0;
}

Status read_trim(const std::string& bundle, const Manifest& manifest, double step, std::shared_ptr<TrimmedHead>* trimmed) {
  trimmed->reset();
  std::vector<int64_t> ids;
  double saved = 0.0;
  EDGEDEC_TRY(read_kept(bundle, manifest, &ids, &saved));
  if (ids.empty()) return {};
  const double bound = break_even(step, step * (1.0 - saved));
  *trimmed = std::make_shared<TrimmedHead>(std::make_shared<KeptIds>(std::move(ids)), bound, saved);
  return {};
}

Status read_trimmed_layer(const std::string& bundle, const Manifest& manifest, const LayerCost& cost,
                          std::shared_ptr<TrimmedHead>* trimmed) {
  trimmed->reset();
  std::vector<int64_t> ids;
  double saved = 0.0;
  EDGEDEC_TRY(read_kept(bundle, manifest, &ids, &saved));
  const int64_t vocabulary = manifest.spec.vocab_size;
  const double whole = cost.with(vocabulary, vocabulary);
  if (const int64_t first = ids.empty() ? first_ids(cost, vocabulary) : 0) {
    for (int64_t id = 0; id < first; ++id) ids.push_back(id);
    for (int64_t end : ends_of(manifest))
      if (end >= first) ids.push_back(end);
    saved = 1.0 - cost.with(static_cast<int64_t>(ids.size()), vocabulary) / whole;
  }
  if (ids.empty()) return {};
  const double bound = break_even(whole, cost.with(static_cast<int64_t>(ids.size()), vocabulary));
  *trimmed = std::make_shared<TrimmedHead>(std::make_shared<KeptIds>(std::move(ids)), bound, saved);
  return {};
}

}  // namespace edgedec::engine
