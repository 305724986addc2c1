#include "engine/model/expert_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/format.h"
#include "core/memory/expert_room.h"
#include "engine/bundle/manifest.h"
#include "common/os/process.h"

namespace edgedec::engine {
namespace {

constexpr int kLanes = 4;  // reads at once: disks and flash are full with two to four

}  // namespace

Status ExpertStore::open(const std::string& weights, const ModelSpec& spec, int64_t bytes, const ModelPlace& place,
                         std::unique_ptr<ExpertStore>* store) {
  const Experts& sizes = spec.experts;
  if (!sizes.count) return {};
  if (bytes < sizes.nbytes)
    return {Code::kBadFile,
            spec.name + " has experts of " + decimal(sizes.nbytes) + " bytes, and " + kWeightsFile + " only " + decimal(bytes),
            "pull or export the model again"};
  const ExpertRoom room = expert_room(sizes, bytes, {place.memory ? place.memory : -1, os::available_bytes(), place.beside});
  if (!room.on_disk) return {};
  std::unique_ptr<ExpertStore> made(new ExpertStore);
  int error = 0;
  const experts::Store::Options options = {static_cast<size_t>(sizes.slot_bytes), static_cast<size_t>(sizes.total()), kLanes, room.direct};
  made->store_ = experts::Store::open(weights.c_str(), options, &error);
  if (made->store_ && !(made->number_ = experts::Store::list(made->store_))) delete made->store_, error = EMFILE;
  if (!made->number_)
    return {Code::kBackend, "no store for the experts in " + weights + ": " + std::strerror(error)};
  made->sizes_ = sizes;
  made->direct_ = room.direct;
  made->most_ = room.most;
  made->limit(room.slots);
  *store = std::move(made);
  return {};
}

void ExpertStore::limit(int64_t slots) {
  slots_ = std::clamp(slots, sizes_.least(), most_);
  store_->limit(static_cast<size_t>(slots_));
}

PassReads ExpertStore::since(const experts::StoreCounts& before) const {
  const experts::StoreCounts now = store_->counts();
  const uint64_t missed = now.held - before.held - (now.hits - before.hits);
  return {static_cast<double>(missed), static_cast<double>(now.nanoseconds_waited - before.nanoseconds_waited) / 1e9};
}

}  // namespace edgedec::engine
