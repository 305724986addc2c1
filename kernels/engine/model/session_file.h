// The format of a session file, in bytes: edgedec/session/session_file.py. The same file opens there and here.
//
// The file has the line "edgedec-session 2", a line with one JSON object (the document), the KV cache if it is kept, and
// the SHA-256 of everything before it. Only its owner can read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/files.h"
#include "engine/base/sha256.h"
#include "core/base/status.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

// Writes a session file, which takes the place of an older one at commit(). A cache goes into it between open and commit.
class SessionWriter : public CacheSink {
 public:
  // `document`: one line of JSON. kStorage.
  Status open(const std::string& path, std::string_view document);
  Status write(const void* data, size_t size) override;
  Status commit();

 private:
  FileWriter file_;
  Sha256 hash_;
};

// Reads a session file whose hash is right: the document, then the cache.
class SessionReader : public CacheSource {
 public:
  // kNotFound, kBadFile for a damaged file, kUnsupported for another version.
  Status open(const std::string& path);
  const std::string& document() const { return document_; }
  // Bytes of the cache that are left to read.
  uint64_t body_bytes() const { return body_; }
  Status read(void* data, size_t size) override;

 private:
  struct Lines {
    uint64_t first = 0, second = 0;  // offsets behind the first two lines; 0 where there is none
  };
  Status check_hash(FileReader& file, uint64_t end, Lines* lines);
  Status read_lines(const Lines& lines);
  Status damaged(const char* why) const;

  std::string path_, document_;
  FileReader file_;
  uint64_t body_ = 0;
};

}  // namespace edgedec::engine
