// drafter.json: something that belongs to one target and helps to draft for it: edgedec/bundle/drafter_manifest.py.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "engine/bundle/fields.h"

namespace edgedec::engine {

struct DrafterManifest {
  std::string kind;  // trim, tables, head, mtp or assistant
  std::string target_name, target_sha256;
  int64_t vocab_size = 0;
  std::vector<FileEntry> files;
  std::vector<std::pair<std::string, double>> numbers;  // of its facts
  std::vector<std::pair<std::string, std::string>> texts;

  // A number of its facts, or null.
  const double* number(std::string_view name) const;
  // A text of its facts; empty where there is none.
  std::string_view text(std::string_view name) const;

  // Reads and checks the manifest in `folder` and the files that it lists; `verify` compares hashes too.
  static Status load(const std::string& folder, bool verify, DrafterManifest* manifest);
  static Status from_json(std::string_view text, DrafterManifest* manifest);

  // Fails unless it is of this kind, and for these weights and this vocabulary.
  Status check_for(std::string_view wanted, std::string_view sha256, int64_t vocabulary) const;
};

}  // namespace edgedec::engine
