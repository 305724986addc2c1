// manifest.json: the model of a bundle, and the size and hash of each of its files: edgedec/bundle/manifest.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "engine/bundle/fields.h"
#include "engine/bundle/preset.h"
#include "core/model_spec.h"

namespace edgedec::engine {

constexpr const char* kModelFile = "model.onnx";
constexpr const char* kDraftingFile = "drafting.onnx";  // the same graph with exits and hidden states, over the same weights
constexpr const char* kWeightsFile = "weights.bin";
constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kTokenizerTable = "tokenizer.table";  // its form that is mapped
constexpr const char* kTemplateFile = "chat_template.jinja";

// Facts of the tokenizer beside its file.
struct TokenizerInfo {
  bool add_bos = false;
  int64_t bos_id = -1;  // -1: none
  std::vector<int32_t> eos_ids;
  bool spm = false;
  bool chat_template = false;  // a base model has none
};

struct Manifest {
  std::string name, kind;
  ModelSpec spec;
  TokenizerInfo tokenizer;
  Preset preset;
  std::vector<FileEntry> files;  // all but the manifest itself

  const FileEntry* file(std::string_view file_name) const;

  // Reads and checks the manifest in `folder`, and compares the sizes of its files, with `verify` their hashes.
  static Status load(const std::string& folder, bool verify, Manifest* manifest);
  static Status from_json(std::string_view text, Manifest* manifest);
};

}  // namespace edgedec::engine
