// Order between threads that a library makes which ThreadSanitizer does not see into. Without that sanitizer it is nothing.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_THREAD__)
#define EDGEDEC_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EDGEDEC_THREAD_SANITIZER
#endif
#endif

#ifdef EDGEDEC_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>

namespace edgedec {

// A parallel section of another library's pool: its parts come after what was done before the section, and before what
// is done after it. Between its parts there is no order, and a race between them is reported.
class OrderedSection {
 public:
  OrderedSection(void (*body)(void*, size_t), void* context) : body_(body), context_(context) { __tsan_release(&begin_); }
  ~OrderedSection() { __tsan_acquire(&end_); }

  static void part(void* opaque, size_t i) {
    auto* section = static_cast<OrderedSection*>(opaque);
    __tsan_acquire(&section->begin_);
    section->body_(section->context_, i);
    __tsan_release(&section->end_);
  }

 private:
  void (*const body_)(void*, size_t);
  void* const context_;
  char begin_ = 0, end_ = 0;  // their addresses name the two ends
};

}  // namespace edgedec
#endif
