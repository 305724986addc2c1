// Conversations in files, with their KV cache, as Python writes and reads them: edgedec/session/saved_session.py.
#pragma once

#include <string>

#include "core/base/status.h"
#include "engine/capi/run.h"
#include "engine/capi/turns.h"

namespace edgedec::engine {

Status save_session(Run& run, const std::string& path, const SavedConversation& conversation);
// Reads the KV cache into the engine. Where the cache does not fit this run, a line to `notice` says so, and the next reply
// reads the conversation again. After another error the engine is as it was, or empty where the cache itself was wrong.
Status restore_session(Run& run, const std::string& path, Notice* notice, SavedConversation* conversation);

}  // namespace edgedec::engine
