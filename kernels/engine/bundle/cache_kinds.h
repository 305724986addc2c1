// The kinds of cache of a manifest: edgedec/core/cache_kinds.py.
#pragma once

#include "core/base/status.h"
#include "core/model_spec.h"
#include "engine/bundle/fields.h"

namespace edgedec::engine {

// Reads the list `caches` of a specification.
Status read_caches(const ManifestFields& reader, ModelSpec* spec);

}  // namespace edgedec::engine
