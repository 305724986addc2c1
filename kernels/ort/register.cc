// The entry point that ONNX Runtime looks up in the library.
#include "common/lock.h"
#include "ort/ops.h"

using namespace edgedec::ort;
using edgedec::Guard;
using edgedec::Mutex;

namespace {

// The domain, made by one copy of the runtime: a process may hold two, Python's and that of the C API.
struct Domain {
  const OrtApi* table = nullptr;
  OrtCustomOpDomain* domain = nullptr;
};
constexpr int kMostCopies = 4;

Mutex one_at_a_time;  // sessions may be made in several threads
Domain domains[kMostCopies];  // they live as long as the process: sessions keep pointers into them

OrtStatus* make_domain(Api api, OrtCustomOpDomain** made) {
  if (OrtStatus* status = api.CreateCustomOpDomain()("ai.edgedec", made)) return status;
  for (const OrtCustomOp* op : {
#define OP(name) name(),
#include "ort/ops.inc"
#undef OP
       })
    if (OrtStatus* status = api.CustomOpDomain_Add()(*made, op)) {
      api.ReleaseCustomOpDomain()(*made);
      return status;
    }
  return nullptr;
}

}  // namespace

EDGEDEC_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  const OrtApi* table = base->GetApi(kApiVersion);
  // Without an API there is no status to return. Callers refuse older runtimes before this call.
  if (!table) return nullptr;
  const Api api{table};
  const Guard guard(one_at_a_time);
  for (Domain& one : domains) {
    if (!one.table) {
      if (OrtStatus* status = make_domain(api, &one.domain)) return status;
      one.table = table;
    }
    if (one.table == table) return api.AddCustomOpDomain()(options, one.domain);
  }
  return api.CreateStatus()(kFail, "too many copies of ONNX Runtime in one process");
}
