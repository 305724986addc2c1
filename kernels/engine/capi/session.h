// Conversations in files, with their KV cache, as Python writes and reads them: edgedec/session/saved_session.py.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/capi/conversation.h"
#include "engine/capi/run.h"

namespace edgedec::engine {

// A conversation as it stands: its messages, and the text and ids that the model has seen of it.
struct SavedConversation {
  std::vector<std::pair<std::string, std::string>> messages;  // role and content
  Prompt seen;
  DrawParams params;
};

Status save_session(Run& run, const std::string& path, const SavedConversation& conversation);
// Reads the KV cache into the engine. Where the cache does not fit this run, a line to `notice` says so, and the next reply
// reads the conversation again. After another error the engine is as it was, or empty where the cache itself was wrong.
Status restore_session(Run& run, const std::string& path, Notice* notice, SavedConversation* conversation);

}  // namespace edgedec::engine
