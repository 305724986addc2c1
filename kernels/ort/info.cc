#include <cmath>

#include "ort/custom_op.h"

namespace edgedec::ort {
namespace {

constexpr size_t kLongestText = 255;

// A text of ONNX Runtime, which says first how long it is.
template <class Read, class Fail>
std::string sized(Api api, const Read& read, const Fail& fail) {
  size_t size = 0;
  if (!succeeded(api, read(nullptr, &size)) || size == 0) return fail(), std::string();
  std::string found(size, '\0');
  if (!succeeded(api, read(&found[0], &size))) return fail(), std::string();
  found.resize(size - 1);  // a zero ends it
  return found;
}

}  // namespace

void Info::missing(const char* name) const {
  fail(std::string("attribute ") + name + " is missing or of the wrong type");
}

const Attribute* Info::find(const char* name, uint64_t type) const {
  for (const Attribute& one : *attributes_)
    if (one.name == name && one.type == type) return &one;
  return nullptr;
}

int64_t Info::integer(const char* name) const {
  constexpr int64_t kNone = INT64_MIN;
  const int64_t value = integer(name, kNone);
  if (value != kNone) return value;
  missing(name);
  return 0;
}

int64_t Info::integer(const char* name, int64_t otherwise) const {
  if (attributes_) {
    const Attribute* found = find(name, Attribute::kInteger);
    return found ? found->integer : otherwise;
  }
  int64_t value;
  return succeeded(api_, api_.KernelInfoGetAttribute_int64()(info_, name, &value)) ? value : otherwise;
}

float Info::real(const char* name) const {
  const float value = real(name, NAN);
  if (!std::isnan(value)) return value;
  missing(name);
  return 0.0f;
}

float Info::real(const char* name, float otherwise) const {
  if (attributes_) {
    const Attribute* found = find(name, Attribute::kReal);
    return found ? found->real : otherwise;
  }
  float value;
  return succeeded(api_, api_.KernelInfoGetAttribute_float()(info_, name, &value)) ? value : otherwise;
}

std::string Info::text(const char* name) const {
  std::string found = long_text(name);
  if (found.size() <= kLongestText) return found;
  return missing(name), std::string();
}

std::string Info::long_text(const char* name) const {
  if (attributes_) {
    if (const Attribute* found = find(name, Attribute::kText)) return std::string(found->text);
    return missing(name), std::string();
  }
  return sized(api_, [&](char* to, size_t* size) { return api_.KernelInfoGetAttribute_string()(info_, name, to, size); },
               [&] { missing(name); });
}

std::vector<int64_t> Info::integers(const char* name) const {
  if (attributes_) {
    if (const Attribute* found = find(name, Attribute::kIntegers)) return found->integers;
    return missing(name), std::vector<int64_t>();
  }
  size_t size = 0;
  succeeded(api_, api_.KernelInfoGetAttributeArray_int64()(info_, name, nullptr, &size));
  std::vector<int64_t> values(size);
  if (size && succeeded(api_, api_.KernelInfoGetAttributeArray_int64()(info_, name, values.data(), &size))) return values;
  missing(name);
  return {};
}

std::vector<std::string> Info::input_names() const {
  size_t count = 0;
  if (!succeeded(api_, api_.KernelInfo_GetInputCount()(info_, &count))) fail("its inputs cannot be read");
  std::vector<std::string> names(count);
  for (size_t i = 0; i < count; ++i)
    names[i] = sized(api_, [&](char* to, size_t* size) { return api_.KernelInfo_GetInputName()(info_, i, to, size); }, [] {});
  return names;
}

std::vector<std::string> Info::output_names() const {
  size_t count = 0;
  if (!succeeded(api_, api_.KernelInfo_GetOutputCount()(info_, &count))) fail("its outputs cannot be read");
  std::vector<std::string> names(count);
  for (size_t i = 0; i < count; ++i)
    names[i] = sized(api_, [&](char* to, size_t* size) { return api_.KernelInfo_GetOutputName()(info_, i, to, size); }, [] {});
  return names;
}

bool Info::constant(size_t input, Tensor* found) const {
  int is_constant = 0;
  const OrtValue* value = nullptr;
  return succeeded(api_, api_.KernelInfoGetConstantInput_tensor()(info_, input, &is_constant, &value)) && is_constant &&
         value && read_tensor(api_, value, found);
}

std::vector<std::string> Info::words(const char* name) const {
  std::vector<std::string> words(1);
  for (char c : text(name))
    if (c == ',')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

}  // namespace edgedec::ort
