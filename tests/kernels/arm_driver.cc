// Calls functions of the kernel library for a test on another machine: `arm_driver LIBRARY`, calls on standard input,
// results on standard output; tests/kernels/arm.py is the other end. All numbers are int64, little endian:
//   call    bytes name, number of arguments, each a kind and: 0 integer, 1 float (its bits), 2 bytes
//   result  the integer or pointer that came back, bytes at that pointer when it is a string, the arguments of kind 2
// where "bytes" is a length and as many bytes; the name starts with 's' (a string comes back), 'p' (a
// pointer) or 'i' (an int).
#if defined(_WIN32)
#define NOMINMAX
#include <windows.h>
// Behind <windows.h>.
#include <fcntl.h>
#include <io.h>
#else
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "arm_driver: %s\n", what.c_str());
  std::exit(3);
}

void read_all(void* to, size_t n) {
  if (std::fread(to, 1, n, stdin) != n) fail("the input ends within a call");
}

int64_t read_number() {
  int64_t n;
  read_all(&n, sizeof n);
  return n;
}

void write_bytes(const void* from, size_t n) {
  const auto length = static_cast<int64_t>(n);
  std::fwrite(&length, 1, sizeof length, stdout);
  std::fwrite(from, 1, n, stdout);
}

#if defined(_WIN32)
size_t page_bytes() { return 4096; }

// Pages, of which the last may not be touched; null.
void* take(size_t bytes) {
  void* all = VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  DWORD before;
  return all && VirtualProtect(static_cast<char*>(all) + bytes - page_bytes(), page_bytes(), PAGE_NOACCESS, &before) ? all : nullptr;
}

void give(void* all, size_t) { VirtualFree(all, 0, MEM_RELEASE); }

void* load(const char* path) { return LoadLibraryA(path); }
std::string why() { return "error " + std::to_string(GetLastError()); }

// A function of the library, or of the C library, which no other one hands on.
void* find(void* library, const char* name) {
  auto found = GetProcAddress(static_cast<HMODULE>(library), name);
  if (!found) found = GetProcAddress(GetModuleHandleA("ucrtbase.dll"), name);
  return reinterpret_cast<void*>(found);
}
#else
size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

void* take(size_t bytes) {
  void* all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return all != MAP_FAILED && !mprotect(static_cast<char*>(all) + bytes - page_bytes(), page_bytes(), PROT_NONE) ? all : nullptr;
}

void give(void* all, size_t bytes) { munmap(all, bytes); }

void* load(const char* path) { return dlopen(path, RTLD_NOW); }
std::string why() { return dlerror(); }
void* find(void* library, const char* name) { return dlsym(library, name); }
#endif

// Memory that ends where a page begins that may not be touched, so that reading or writing past it is a crash.
class Buffer {
 public:
  explicit Buffer(size_t n) : size(n), page(page_bytes()), mapped((n / page + 2) * page), base(static_cast<char*>(take(mapped))) {
    if (!base) fail("no memory");
    data = base + mapped - page - n;
  }
  Buffer(Buffer&& b) noexcept : size(b.size), page(b.page), mapped(b.mapped), base(b.base), data(b.data) { b.base = nullptr; }
  ~Buffer() {
    if (base) give(base, mapped);
  }

  size_t size, page, mapped;

 private:
  char* base;

 public:
  char* data;
};

using Integer = uint64_t;

#if defined(_WIN32)
// Each argument has its place, whatever its type, and those of a function with "..." go in both registers of their places: so one
// type fits every function of up to 24 arguments.
using Any = Integer (*)(double, ...);

Integer call(void* function, const std::vector<Integer>& given, const std::vector<float>&) {
  double n[24] = {};
  std::memcpy(n, given.data(), (given.size() < 24 ? given.size() : 24) * sizeof(double));
  return reinterpret_cast<Any>(function)(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], n[12],
                                         n[13], n[14], n[15], n[16], n[17], n[18], n[19], n[20], n[21], n[22], n[23]);
}

constexpr bool kInOrder = true;
#else
// Integers and pointers go in their registers, then on the stack in eight bytes each, floats in registers of their
// own, whatever their order (AAPCS64): so one type fits every function of up to 24 integers and 4 floats.
using Any = Integer (*)(Integer, Integer, Integer, Integer, Integer, Integer, Integer, Integer, float, float, float, float,
                        Integer, Integer, Integer, Integer, Integer, Integer, Integer, Integer, Integer, Integer, Integer,
                        Integer, Integer, Integer, Integer, Integer);

Integer call(void* function, const std::vector<Integer>& n, const std::vector<float>& f) {
  return reinterpret_cast<Any>(function)(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], f[0], f[1], f[2], f[3], n[8],
                                         n[9], n[10], n[11], n[12], n[13], n[14], n[15], n[16], n[17], n[18], n[19],
                                         n[20], n[21], n[22], n[23]);
}

constexpr bool kInOrder = false;
#endif

void serve(void* library, int64_t name_length) {
  std::string name(static_cast<size_t>(name_length), 0);
  read_all(&name[0], name.size());
  void* function = find(library, name.c_str() + 1);
  if (!function) fail("no function " + name.substr(1));
  std::vector<Integer> integers;
  std::vector<float> floats;
  std::vector<Buffer> buffers;
  for (int64_t left = read_number(); left > 0; --left) {
    const int64_t kind = read_number(), value = read_number();
    if (kind == 0) integers.push_back(static_cast<Integer>(value));
    if (kind == 1 && kInOrder) integers.push_back(static_cast<uint32_t>(value));
    if (kind == 1 && !kInOrder) std::memcpy(&floats.emplace_back(), &value, sizeof(float));
    if (kind != 2) continue;
    buffers.emplace_back(static_cast<size_t>(value));
    read_all(buffers.back().data, buffers.back().size);
    integers.push_back(reinterpret_cast<Integer>(buffers.back().data));
  }
  if (integers.size() > 24 || floats.size() > 4) fail("too many arguments for " + name);
  integers.resize(24);
  floats.resize(4);
  const Integer result = call(function, integers, floats);
  const int64_t number = name[0] == 'i' ? static_cast<int32_t>(result) : static_cast<int64_t>(result);
  std::fwrite(&number, 1, sizeof number, stdout);
  const auto* text = reinterpret_cast<const char*>(result);
  if (name[0] == 's') write_bytes(text, text ? std::strlen(text) : 0);
  for (const Buffer& b : buffers) write_bytes(b.data, b.size);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
#if defined(_WIN32)
  _setmode(_fileno(stdin), _O_BINARY);
  _setmode(_fileno(stdout), _O_BINARY);
#endif
  void* library = argc == 2 ? load(argv[1]) : nullptr;
  if (!library) fail(argc == 2 ? why() : "usage: arm_driver LIBRARY");
  int64_t length;
  while (std::fread(&length, sizeof length, 1, stdin) == 1) serve(library, length);
  return 0;
}
