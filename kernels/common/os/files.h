// Files and folders. Paths are UTF-8 on every system. A function that fails leaves the reason in errno, as of <cerrno>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace edgedec::os {

using File = intptr_t;  // an open one
constexpr File kNoFile = -1;

struct Facts {
  uint64_t size = 0;
  bool regular = false, folder = false;
};

// Opens a file to read. A pipe in its place does not hang the program. kNoFile.
File open_to_read(const char* path);
// Opens a file for read_at() alone, from several threads at once. `past_cache`: around the system's cache, where the file system has
// such reads; they need memory, places and lengths in whole pages.
File open_for_places(const char* path, bool past_cache);
// Makes a file to write; EEXIST: there is one, or a link.
File create_new(const char* path);
bool close(File file);  // false where what was written may be lost

// Read up to `size` bytes, from where the last read ended or from offset `at`; how many, 0 at the end; -1.
int64_t read(File file, void* data, size_t size);
int64_t read_at(File file, void* data, size_t size, uint64_t at);
// Reads of a file that refuses them past the cache go through it from now on.
void read_through_cache(File file);
// Writes up to `size` bytes; how many; -1.
int64_t write(File file, const void* data, size_t size);
// Whether all that was written is on the disk.
bool flush(File file);

bool facts(File file, Facts* found);
bool facts(const char* path, Facts* found);
bool is_link(const char* path);
// The absolute path behind all links; false where it leads nowhere.
bool real_path(const char* path, std::string* found);
bool is_separator(char one);

bool make_folder(const char* path);
bool remove_file(const char* path);
// Puts a file in the place of another one, or of none.
bool replace(const char* from, const char* to);

// A file in memory, read only; null.
void* map(File file, uint64_t size);
void unmap(void* data, size_t size);

// Lets the system forget what its cache holds of a file, where it can.
void forget_cached(File file, uint64_t first, uint64_t bytes);

// Opens the file that [data, data + size) is mapped from, `*start` being the offset of `data`. kNoFile also where the system does
// not say which file that is, as all but Linux, or another one has taken its name.
File open_mapped(const uint8_t* data, size_t size, uint64_t* start);
// Whether this system says so.
constexpr bool knows_mapped_files() {
#if defined(__linux__)
  return true;
#else
  return false;
#endif
}

// Reads [first, first + bytes) of a file into the system's page cache, where it can. Linux takes pages of 2 MiB where it has none yet:
// a pass over many weights waits less for their addresses, and a mapping alone reads pieces of 128 KiB at most. Measured on Zen 4,
// two threads, Linux 6.18, ext4: passes over one, four and eight tokens of Qwen2.5-Coder-1.5B take 0.94, 0.92 and 0.92 of the time.
// Linux does it on XFS since version 5.18, on ext4 since 6.16; elsewhere it reads small pages.
void read_ahead(const char* path, uint64_t first, uint64_t bytes);

}  // namespace edgedec::os
