#include "engine/drafters/vocabulary_pair.h"

#include <algorithm>

#include "engine/base/files.h"
#include "engine/drafters/device_folder.h"

namespace edgedec::engine {
namespace {

// Whether both bundles have the very same tokenizer file, which settles it.
bool same_file(const Manifest& target, const Manifest& draft) {
  for (const char* name : {kTokenizerFile, kTokenizerTable}) {
    const FileEntry *theirs = target.file(name), *mine = draft.file(name);
    if (theirs && mine) return theirs->bytes == mine->bytes && theirs->sha256 == mine->sha256;
  }
  return false;
}

// Whether two vocabularies are the same, id by id.
bool same_vocabulary(const Tokenizer& target, const Tokenizer& draft, int64_t ids) {
  if (target.size() != draft.size() || target.info().spm != draft.info().spm) return false;
  for (int64_t id = 0; id < ids; ++id)
    if (target.spelling(id) != draft.spelling(id)) return false;
  return true;
}

}  // namespace

Status VocabularyPair::open(const Target& target, const Manifest& draft, const DrafterSpec& spec) {
  target_ = &target.tokenizer;
  const int64_t theirs = target.manifest.spec.vocab_size, mine = draft.spec.vocab_size;
  shared_ids_ = std::min(theirs, mine);
  if (same_file(target.manifest, draft)) return {};
  EDGEDEC_TRY(Tokenizer::open(path_in(spec.bundle, kTokenizerTable), draft.tokenizer, &tokenizer_));
  if (!spec.maps.empty()) {
    EDGEDEC_TRY(check_maps(spec.maps, spec.map_files));
    return maps_.read(spec.maps, theirs, mine);
  }
  if (!same_vocabulary(target.tokenizer, *tokenizer_, std::max(theirs, mine)))
    return {Code::kUnsupported,
            spec.name + " cannot draft for " + target.manifest.name + ": it has another vocabulary, and no maps to it",
            "export both into one folder for a device"};
  tokenizer_.reset();
  return {};
}

std::unique_ptr<Bridge> VocabularyPair::bridge() {
  if (!tokenizer_) return std::make_unique<SameVocabulary>(shared_ids_);
  const TokenizerInfo& info = tokenizer_->info();
  std::vector<int32_t> opening;
  if (info.add_bos && info.bos_id >= 0) opening.push_back(static_cast<int32_t>(info.bos_id));
  return std::make_unique<TextBridge>(*target_, *tokenizer_, maps_, std::move(opening));
}

}  // namespace edgedec::engine
