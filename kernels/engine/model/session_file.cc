#include "engine/model/session_file.h"

#include <string.h>

#include <algorithm>

#include "core/base/format.h"

namespace edgedec::engine {
namespace {

constexpr std::string_view kMagic = "edgedec-session ";
constexpr std::string_view kVersion = "2";
constexpr uint64_t kMostFirstLine = 64;
constexpr uint64_t kMostDocument = uint64_t{64} << 20;
constexpr size_t kHashBytes = 32;
constexpr size_t kPiece = 1 << 16;

// Digits of a hash as its bytes.
void to_bytes(const std::string& hex, uint8_t* bytes) {
  const auto digit = [](char one) { return one <= '9' ? one - '0' : one - 'a' + 10; };
  for (size_t at = 0; at < kHashBytes; ++at)
    bytes[at] = static_cast<uint8_t>(digit(hex[2 * at]) * 16 + digit(hex[2 * at + 1]));
}

}  // namespace

Status SessionWriter::open(const std::string& path, std::string_view document) {
  EDGEDEC_TRY(file_.open(path));
  for (std::string_view part : {kMagic, kVersion, std::string_view("\n"), document, std::string_view("\n")})
    EDGEDEC_TRY(write(part.data(), part.size()));
  return {};
}

Status SessionWriter::write(const void* data, size_t size) {
  hash_.add(data, size);
  return file_.write(data, size);
}

Status SessionWriter::commit() {
  uint8_t bytes[kHashBytes];
  to_bytes(hash_.hex(), bytes);
  EDGEDEC_TRY(file_.write(bytes, sizeof bytes));
  return file_.commit();
}

Status SessionReader::damaged(const char* why) const { return {Code::kBadFile, path_ + why}; }

Status SessionReader::open(const std::string& path) {
  path_ = path;
  FileReader whole;
  Status opened = whole.open(path);
  if (opened.code() == Code::kNotFound)
    return {Code::kNotFound, "no such file: " + path, "save the conversation first"};
  EDGEDEC_TRY(std::move(opened));
  char start[kMagic.size()];
  if (whole.size() < sizeof start) return damaged(" is not a saved conversation");
  EDGEDEC_TRY(whole.read(start, sizeof start));
  if (std::string_view(start, sizeof start) != kMagic) return damaged(" is not a saved conversation");
  if (whole.size() < sizeof start + kHashBytes) return damaged(" is truncated or damaged: its hash is wrong");
  Lines lines;
  EDGEDEC_TRY(whole.open(path));
  EDGEDEC_TRY(check_hash(whole, whole.size() - kHashBytes, &lines));
  return read_lines(lines);
}

Status SessionReader::check_hash(FileReader& file, uint64_t end, Lines* lines) {
  std::string piece(kPiece, '\0');
  Sha256 hash;
  for (uint64_t at = 0; at < end;) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(end - at, kPiece));
    EDGEDEC_TRY(file.read(&piece[0], size));
    for (size_t from = 0; !lines->second && from < size;) {
      const void* found = memchr(&piece[from], '\n', size - from);
      if (!found) break;
      from = static_cast<size_t>(static_cast<const char*>(found) - piece.data()) + 1;
      (lines->first ? lines->second : lines->first) = at + from;
    }
    hash.add(piece.data(), size);
    at += size;
  }
  uint8_t stated[kHashBytes], computed[kHashBytes];
  EDGEDEC_TRY(file.read(stated, sizeof stated));
  to_bytes(hash.hex(), computed);
  if (memcmp(stated, computed, kHashBytes) != 0) return damaged(" is truncated or damaged: its hash is wrong");
  return {};
}

Status SessionReader::read_lines(const Lines& lines) {
  const uint64_t first = lines.first, second = lines.second;
  if (!first || first > kMostFirstLine) return damaged(" is not a saved conversation");
  if (!second) return damaged(" is not a saved conversation (not JSON)");
  if (second - first > kMostDocument) return damaged(" is too large for a saved conversation");
  std::string line(static_cast<size_t>(first), '\0');
  EDGEDEC_TRY(file_.open(path_));
  EDGEDEC_TRY(file_.read(&line[0], line.size()));
  const std::string_view version = std::string_view(line).substr(kMagic.size(), line.size() - kMagic.size() - 1);
  if (version != kVersion)
    return {Code::kUnsupported,
            path_ + " has session format " + quoted(version) + ", and this EdgeDec reads " + std::string(kVersion),
            "start a new conversation in another file"};
  document_.assign(static_cast<size_t>(second - first - 1), '\0');
  EDGEDEC_TRY(file_.read(&document_[0], document_.size()));
  char newline;
  EDGEDEC_TRY(file_.read(&newline, 1));
  if (file_.left() < kHashBytes) return damaged(" changed while it was read");
  body_ = file_.left() - kHashBytes;
  return {};
}

Status SessionReader::read(void* data, size_t size) {
  if (size > body_) return damaged(" is a damaged conversation: its cache has the wrong size");
  EDGEDEC_TRY(file_.read(data, size));
  body_ -= size;
  return {};
}

}  // namespace edgedec::engine
