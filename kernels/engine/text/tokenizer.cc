#include "engine/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <new>

#include "core/base/utf8_decoder.h"

namespace edgedec::engine {
namespace {

constexpr const char* kAgain = "export the folder again";
constexpr std::string_view kSpace = "\xE2\x96\x81";  // SentencePiece's
constexpr size_t kAfterChecksum = 12;
constexpr uint32_t kLetters = 324;  // characters below this one may stand for a byte

Status damaged_table() { return {Code::kBadFile, "tokenizer.table is damaged", kAgain}; }

// CRC-32 of a file behind the checksum, read piece by piece: mapped pages would stay resident.
Status checksum_of(const std::string& path, uint32_t* checksum) {
  std::array<uint32_t, 256> table;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest & 1 ? 0xEDB88320u ^ rest >> 1 : rest >> 1;
    table[byte] = rest;
  }
  FileReader reader;
  EDGEDEC_TRY(reader.open(path));
  if (reader.left() < sizeof(text::Header)) return damaged_table();
  std::vector<unsigned char> chunk(1 << 16);
  EDGEDEC_TRY(reader.read(chunk.data(), kAfterChecksum));
  uint32_t found = ~0u;
  while (reader.left()) {
    const size_t size = static_cast<size_t>(std::min<uint64_t>(reader.left(), chunk.size()));
    EDGEDEC_TRY(reader.read(chunk.data(), size));
    for (size_t i = 0; i < size; ++i) found = table[(found ^ chunk[i]) & 0xFF] ^ found >> 8;
  }
  *checksum = ~found;
  return {};
}

// The bytes for which the characters of byte-level BPE stand; -1 for others.
struct Bytes {
  constexpr Bytes() {
    for (int16_t& byte : of) byte = -1;
    for (uint32_t byte = 0; byte < 256; ++byte) of[text::letter(byte)] = static_cast<int16_t>(byte);
  }
  int16_t of[kLetters] = {};
};
constexpr Bytes kBytes;

int hex(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char upper = static_cast<char>(digit & ~0x20);
  return upper >= 'A' && upper <= 'F' ? upper - 'A' + 10 : -1;
}

// The byte of a token spelled <0x0A>; -1 for others.
int byte_of(std::string_view spelled) {
  if (spelled.size() != 6 || spelled.substr(0, 3) != "<0x" || spelled[5] != '>') return -1;
  const int high = hex(spelled[3]), low = hex(spelled[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

size_t characters_in(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

}  // namespace

Status Tokenizer::open(const std::string& file, const TokenizerInfo& info, std::unique_ptr<Tokenizer>* tokenizer) {
  std::unique_ptr<Tokenizer> made(new (std::nothrow) Tokenizer);
  if (!made) return {Code::kNoMemory, "no memory for the tokenizer"};
  uint32_t checksum;
  EDGEDEC_TRY(checksum_of(file, &checksum));
  EDGEDEC_TRY(made->file_.open(file));
  if (!made->table_.open(made->file_.data(), made->file_.size())) return damaged_table();
  if (reinterpret_cast<const text::Header*>(made->file_.data())->checksum != checksum) return damaged_table();
  made->info_ = info;
  made->encoder_.reset(new (std::nothrow) text::Encoder(made->table_));
  if (!made->encoder_) return {Code::kNoMemory, "no memory for the tokenizer"};
  if (!made->encoder_->open()) return damaged_table();
  *tokenizer = std::move(made);
  return {};
}

Status Tokenizer::encode(std::string_view text, bool specials, std::vector<int32_t>* ids) const {
  return encode(valid_utf8(text), text::Specials{specials, {}}, ids);
}

Status Tokenizer::encode(const GuardedText& given, std::vector<int32_t>* ids) const {
  return encode(given.text, text::Specials{true, {given.literal.data(), given.literal.size()}}, ids);
}

Status Tokenizer::encode(std::string_view valid, text::Specials specials, std::vector<int32_t>* ids) const {
  Array<uint32_t> found;
  const int64_t failure = encoder_->encode(valid, specials, &found);
  if (failure == text::kNoMemory) return {Code::kNoMemory, "no memory to encode a text", "shorten it"};
  if (failure) return damaged_table();
  ids->insert(ids->end(), found.begin(), found.end());
  return {};
}

Status Tokenizer::encode_inside(std::string_view text, std::vector<int32_t>* ids) const {
  if (!adds_space()) return encode(text, false, ids);
  if (text.size() > 1 && text[0] == ' ') return encode(text.substr(1), false, ids);
  std::vector<int32_t> found;
  EDGEDEC_TRY(encode("\x01" + std::string(text), false, &found));  // nothing joins up with that
  std::string ahead;
  for (size_t at = 0; at < found.size(); ++at) {
    if (ahead == " \x01") {
      ids->insert(ids->end(), found.begin() + static_cast<ptrdiff_t>(at), found.end());
      return {};
    }
    append_piece(found[at], &ahead);
  }
  return encode(text, false, ids);
}

void Tokenizer::begin(std::vector<int32_t>* ids) const {
  if (!info_.add_bos || info_.bos_id < 0) return;
  const auto bos = static_cast<int32_t>(info_.bos_id);
  if (ids->empty() || ids->front() != bos) ids->insert(ids->begin(), bos);
}

std::string_view Tokenizer::spelling(int64_t token) const {
  const char* spelled;
  size_t length;
  if (token < 0 || token > INT32_MAX || !(table_.kind(static_cast<uint32_t>(token)) & (text::kInVocabulary | text::kAdded)) ||
      !table_.spelling(static_cast<uint32_t>(token), &spelled, &length))
    return {};
  return {spelled, length};
}

void Tokenizer::append_piece(int64_t token, std::string* bytes) const {
  std::string_view spelled = spelling(token);
  const uint8_t kind = spelled.empty() ? 0 : table_.kind(static_cast<uint32_t>(token));
  if (kind & text::kAdded) {
    if (!(kind & text::kSpecial)) bytes->append(spelled);
  } else if (!info_.spm) {
    for (size_t size; !spelled.empty(); spelled.remove_prefix(size)) {
      uint32_t code;
      size = text::character(spelled.data(), spelled.size(), &code);
      if (code < kLetters && kBytes.of[code] >= 0) {
        bytes->push_back(static_cast<char>(kBytes.of[code]));
      } else {
        bytes->append(spelled.substr(0, size));
      }
    }
  } else if (const int byte = byte_of(spelled); byte >= 0) {
    bytes->push_back(static_cast<char>(byte));
  } else {
    for (size_t at; (at = spelled.find(kSpace)) != spelled.npos; spelled.remove_prefix(at + kSpace.size())) {
      bytes->append(spelled.substr(0, at)).push_back(' ');
    }
    bytes->append(spelled);
  }
}

const std::vector<std::pair<std::string_view, int32_t>>& Tokenizer::control() const {
  if (!control_known_) {
    for (uint32_t token = 0; table_.known(token); ++token) {
      if (!(table_.kind(token) & text::kSpecial)) continue;
      if (const std::string_view spelled = spelling(token); !spelled.empty()) {
        control_.emplace_back(spelled, static_cast<int32_t>(token));
      }
    }
    std::sort(control_.begin(), control_.end());
    control_known_ = true;
  }
  return control_;
}

// The length of the longest token in bytes of text.
uint64_t Tokenizer::longest() const {
  if (longest_) return longest_;
  uint64_t found = 1;
  for (uint32_t token = 0; table_.known(token); ++token) {
    const std::string_view spelled = spelling(token);
    if (table_.kind(token) & text::kAdded) found = std::max<uint64_t>(found, spelled.size());
    const size_t length = info_.spm ? spelled.size() - (kSpace.size() - 1) * count(spelled, kSpace) : characters_in(spelled);
    found = std::max<uint64_t>(found, length);
  }
  return longest_ = found;
}

uint64_t Tokenizer::most_bytes(uint64_t tokens) const {
  const uint64_t each = longest() * (encoder_->composes() ? 4 : 1);  // NFC joins at most three bytes into one
  return tokens > UINT64_MAX / each ? UINT64_MAX : tokens * each;
}

}  // namespace edgedec::engine
