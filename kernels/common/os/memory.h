// Memory of the system: whole pages, and what the heap has none of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgedec::os {

// The size of a page: 4 KiB on most machines, 16 KiB on newer phones and Apple's.
size_t page_bytes();

// Takes whole pages of zeroes; those that are never written to take no room. Null without memory.
void* take_pages(size_t bytes);
// The same without a promise that all may be written to, where the system distinguishes: for what is planned to be much larger
// than what is used.
void* reserve_pages(size_t bytes);
// Returns what one of these took.
void return_pages(void* pages, size_t bytes);
// Lets go of the contents of whole pages; they are undefined then, and take no room until they are written to again.
void give_back(void* pages, size_t bytes);

// Advice: large pages cost less to reach, small ones commit less memory for the first byte that is written.
void prefer_large_pages(void* pages, size_t bytes);
void prefer_small_pages(void* pages, size_t bytes);

// Takes memory of the heap that is aligned to a power of two; null without memory.
void* take_aligned(size_t alignment, size_t bytes);
void free_aligned(void* memory);

// Returns pages that were freed but kept by the heap.
void trim_heap();

// Gives the process copies of its own of pages that are mapped privately from a file: what is written is no longer the file's.
// Zero, or errno. `old`: as where the system has no call for it.
int own_pages(uint64_t begin, uint64_t size, bool old);

}  // namespace edgedec::os
