// Bytes and slots of a KV cache.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/span.h"
#include "core/base/status.h"
#include "core/model_spec.h"
#include "core/decode/forward.h"

namespace edgedec::engine {

// The capacity in tokens that `capacity` asks for. kUsage.
Status checked_capacity(const ModelSpec& spec, int64_t capacity, int64_t* tokens);

// Bytes of the key, or the value, of one token and head.
int64_t kv_row_bytes(int64_t head_dim, KvType kv);
// Name, in a graph that takes every type, of the last dimension of its cache, in units of two bytes.
std::string kv_row_name(int64_t head_dim);
const char* kv_name(KvType kv);
// Its name in files. int8 has a number, since its rows had another meaning before: those are no longer read.
const char* kv_format(KvType kv);

// The keys of all tokens; the graph has them as kv_cache, also where no layer keeps any.
Keys whole_keys(const ModelSpec& spec);
// The keys that lie in rings; no window without such layers.
Keys ring_keys(const ModelSpec& spec);
// Slots of a ring that survive any pass: those that the next token sees, and those of a rewind.
int64_t ring_kept(const ModelSpec& spec);
// Slots of the rings of layers with a window, for passes over at most `longest` tokens: whole pages of them, and at most
// `capacity`, with which no ring goes round. 0 without such layers.
int64_t ring_slots(const ModelSpec& spec, int64_t capacity, int64_t longest, KvType kv);
// Bytes of keys and values of `capacity` tokens; layers with a window have `ring` slots (0: all).
// An upper bound on resident bytes: pages of positions never reached stay untouched.
int64_t kv_bytes(const ModelSpec& spec, int64_t capacity, KvType kv, int64_t ring);
// Bytes that recurrent layers keep of one sequence: rows, states, and their checkpoint.
int64_t state_bytes(Span<const States> kinds);
// Tokens that states can take back; 0: without states there is no bound.
int64_t most_undone(Span<const States> kinds);

}  // namespace edgedec::engine
