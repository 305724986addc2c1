// The entry point that ONNX Runtime looks up in the library.
#include "common/lock.h"
#include "ort/ops.h"

using namespace edgedec::ort;
using edgedec::Guard;
using edgedec::Mutex;

namespace {
Mutex one_at_a_time;  // sessions may be made in several threads
}

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(OrtSessionOptions* options,
                                                                               const OrtApiBase* base) {
  const OrtApi* table = base->GetApi(kApiVersion);
  // Without an API there is no status to return. The Python side refuses older runtimes before this call.
  if (!table) return nullptr;
  const Api api{table};
  static OrtCustomOpDomain* domain = nullptr;
  const Guard guard(one_at_a_time);
  if (!domain) {
    OrtCustomOpDomain* made = nullptr;
    if (OrtStatus* status = api.CreateCustomOpDomain()("ai.edgedec", &made)) return status;
    for (const OrtCustomOp* op : {
#define OP(name) name(),
#include "ort/ops.inc"
#undef OP
         })
      if (OrtStatus* status = api.CustomOpDomain_Add()(made, op)) {
        api.ReleaseCustomOpDomain()(made);
        return status;
      }
    domain = made;  // lives as long as the process: sessions keep pointers into it
  }
  return api.AddCustomOpDomain()(options, domain);
}
