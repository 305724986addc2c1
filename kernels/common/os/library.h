// Libraries that are loaded while the program runs.
#pragma once

#include <string>

namespace edgedec::os {

// Loads the library at `path`, or by a name that the system's loader knows; it stays loaded. Null: `*why` says it.
void* load_library(const char* path, std::string* why);

// A function of a library; null where it has none of that name.
void* find_function(void* library, const char* name);

}  // namespace edgedec::os
