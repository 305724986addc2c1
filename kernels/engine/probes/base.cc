// Functions that tests of base/ call.
#include "engine/base/files.h"
#include "core/base/json.h"
#include "engine/base/sha256.h"
#include "engine/probes/report.h"

using namespace edgedec::engine;

// The result of json.dumps(json.loads(text), sort_keys=True); null where that raises.
EDGEDEC_EXPORT char* edgedec_probe_json(const char* text, size_t size, size_t* out_size) {
  Json json;
  if (!json.parse({text, size})) return nullptr;
  return copied(json.root().canonical(), out_size);
}

EDGEDEC_EXPORT char* edgedec_probe_real_text(double value, size_t* out_size) { return copied(real_text(value), out_size); }

EDGEDEC_EXPORT int edgedec_probe_parse_real(const char* text, size_t size, double* value) {
  const std::optional<double> found = parse_real({text, size});
  if (found) *value = *found;
  return found.has_value();
}

EDGEDEC_EXPORT char* edgedec_probe_sha256(const char* data, size_t size, size_t step, size_t* out_size) {
  Sha256 hash;
  for (size_t at = 0; at < size; at += step) hash.add(data + at, step < size - at ? step : size - at);
  return copied(hash.hex(), out_size);
}

// Writes `data` to a file and reads it again, at most `most` bytes; returns the Code.
EDGEDEC_EXPORT int edgedec_probe_write_read(const char* path, const char* data, size_t size, size_t most) {
  std::string content;
  Status status = write_file(path, {data, size});
  if (status.ok()) status = read_file(path, most, &content);
  if (status.ok() && content != std::string(data, size)) return -1;
  return static_cast<int>(status.code());
}
