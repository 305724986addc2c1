// python.exe, for the python311.dll that lies beside it.
#include <windows.h>

typedef int (*Main)(int, wchar_t**);

int wmain(int count, wchar_t** words) {
  const HMODULE python = LoadLibraryW(L"python311.dll");
  const Main run = python ? (Main)(void*)GetProcAddress(python, "Py_Main") : NULL;
  return run ? run(count, words) : 99;
}
