// Functions that tests of memory/ call.
#include "common/os/process.h"
#include "core/memory/ledger.h"
#include "engine/memory/own_pages.h"
#include "core/memory/units.h"
#include "engine/probes/report.h"

using namespace edgedec::engine;

EDGEDEC_EXPORT char* edgedec_probe_size_text(int64_t count, int up, size_t* out_size) {
  return copied(up ? size_up(count) : size_text(count), out_size);
}

// Resident bytes, the most of them, those in pages of files called `name`, bytes of the mappings of `path`.
EDGEDEC_EXPORT void edgedec_probe_process(const char* name, const char* path, int64_t* found) {
  found[0] = edgedec::os::rss_bytes();
  found[1] = edgedec::os::peak_rss_bytes();
  found[2] = edgedec::os::mapped_rss_bytes(name);
  found[3] = bytes_of(edgedec::os::mapped_spans(path));
}

// Takes and returns leases of a ledger with one share: steps of (bytes or, below 0, bytes to return); the error or null.
EDGEDEC_EXPORT char* edgedec_probe_leases(int64_t share, const int64_t* steps, size_t count, int64_t* facts,
                                          size_t* out_size) {
  Ledger ledger;
  if (share >= 0) ledger.reshare({{"tables", share}, {"slack", 5'000'000}});
  Status status;
  for (size_t at = 0; at < count && status.ok(); ++at) {
    if (steps[at] < 0)
      ledger.give_back("tables", -steps[at]);
    else
      status = ledger.take("tables", steps[at]);
  }
  facts[0] = ledger.held("tables");
  facts[1] = ledger.most("tables");
  return status.ok() ? nullptr : reported(status, out_size);
}
