#include "common/mappings.h"

#include <cstring>

namespace edgedec {
namespace {

// Reads a number and moves *at behind it; false where none is.
bool number(const char** at, unsigned base, uint64_t* value) {
  const char* first = *at;
  for (*value = 0;; ++*at) {
    const char c = **at;
    const unsigned digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : base;
    if (digit >= base) return *at != first;
    *value = *value * base + digit;
  }
}

// The next word: behind this one and blanks.
const char* word(const char* at) {
  while (*at && *at != ' ') ++at;
  while (*at == ' ') ++at;
  return at;
}

}  // namespace

// Not by sscanf: the names under which C libraries export it differ.
bool parse_mapping(char* line, Mapping* found) {
  line[std::strcspn(line, "\n")] = '\0';
  const char* at = line;
  uint64_t begin, end, device;
  if (!number(&at, 16, &begin) || *at++ != '-' || !number(&at, 16, &end)) return false;
  at = word(at);
  found->code = std::strncmp(at, "r-xp", 4) == 0;
  found->own = std::strncmp(at, "rw-p", 4) == 0;
  at = word(at);
  if (!number(&at, 16, &found->offset)) return false;
  at = word(at);
  if (!number(&at, 16, &device) || *at++ != ':' || !number(&at, 16, &device)) return false;
  if (!number(&(at = word(at)), 10, &found->inode)) return false;
  at = word(at);
  found->begin = static_cast<uintptr_t>(begin);
  found->end = static_cast<uintptr_t>(end);
  found->path = *at == '/' ? at : nullptr;
  return true;
}

}  // namespace edgedec
