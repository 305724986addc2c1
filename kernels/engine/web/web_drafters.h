// Drafters of a page: those that every model has, and beside a model on the CPU those that its folder carries.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/decode/drafter.h"
#include "core/draft/trimmed_head.h"
#include "engine/bundle/drafter_manifest.h"
#include "engine/bundle/manifest.h"
#include "engine/drafters/registry.h"
#include "engine/drafters/vocabulary_pair.h"
#include "engine/web/awaited_forward.h"
#include "engine/web/cpu_model.h"

namespace edgedec::engine {

// A model on the CPU that is drafted for.
struct CpuTarget {
  const std::string& folder;
  VocabularyPair::Target model;
  CpuModel& cpu;
  AwaitedForward& forward;
};

// A model of which a device elsewhere runs layers apart.
struct PeekedTarget {
  const std::string& folder;
  const Manifest& manifest;
  AwaitedForward& forward;
};

class WebDrafters {
 public:
  // Finds the drafters of the names in `text`; until open() those that need no CPU model draft.
  Status resolve(std::string_view text, const std::string& folder, const Manifest& manifest);
  // Opens those that are layers of the model. Fails for layers that it does not have.
  Status open(const PeekedTarget& target);
  // Opens the others, which may take `room` bytes. One that cannot be used is left out, and a note says why.
  Status open(const CpuTarget& target, int64_t room = INT64_MAX);
  // Makes the drafters, which know no text; `target`: where a CPU model is drafted for, else null.
  Status make(const std::string& folder, const Manifest& manifest, const CpuTarget* target, Drafters* drafters);

  std::vector<std::string> names() const;
  const std::vector<std::string>& notes() const { return notes_; }
  // Bytes of those with files.
  int64_t bytes() const { return bytes_; }

 private:
  struct Small {
    Manifest manifest;
    VocabularyPair vocabulary;
    std::unique_ptr<CpuCaches> caches;
    std::unique_ptr<CpuModel> model;
    std::unique_ptr<AwaitedForward> forward;
    std::shared_ptr<TrimmedHead> trimmed;
  };

  Status open_one(const DrafterSpec& spec, const CpuTarget& target);
  void open_trim(const std::string& folder, const Manifest& manifest);
  void close(DrafterKind kind);
  Status open_small(const DrafterSpec& spec, const CpuTarget& target);
  Status make_one(const DrafterSpec& spec, const CpuTarget& target, Drafters* drafters);
  Status make_carried(const CarriedKind& kind, const CpuTarget& target, std::unique_ptr<Drafter>* made);
  Status make_mtp(const CpuFiles& files, const DrafterManifest& found, const CpuTarget& target, std::unique_ptr<Drafter>* made);
  Status make_head(const CpuFiles& files, const DrafterManifest& found, const CpuTarget& target, std::unique_ptr<Drafter>* made);
  Status make_assistant(const CpuFiles& files, const DrafterManifest& found, const CpuTarget& target,
                        std::unique_ptr<Drafter>* made);
  std::unique_ptr<Drafter> make_small(const DrafterSpec& spec) const;

  std::vector<DrafterSpec> specs_;
  bool opened_ = false;
  std::optional<PeekedTarget> peeked_;
  std::vector<std::pair<DrafterKind, std::unique_ptr<Drafter>>> ready_;  // that open() made
  std::vector<std::string> notes_;
  std::shared_ptr<TrimmedHead> trimmed_;
  std::unique_ptr<Small> small_;
  int64_t bytes_ = 0;
};

}  // namespace edgedec::engine
