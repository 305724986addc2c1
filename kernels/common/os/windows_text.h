// Text and errors of Windows, for the files of this folder that include its headers.
#pragma once

#ifndef NOMINMAX
#define NOMINMAX
#endif
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <string>
#include <string_view>

namespace edgedec::os {

std::wstring wide(std::string_view text);
std::string utf8(std::wstring_view text);

// A path as functions of Windows take it. From about 250 characters on they want an absolute one with a mark before it.
std::wstring native(const char* path);

// Sets errno to what GetLastError() says, and returns false.
bool failed();

}  // namespace edgedec::os
