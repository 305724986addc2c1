// The functions of edgedec_web.h over an engine.
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>

#include "core/base/json.h"
#include "engine/web/edgedec_web.h"
#include "engine/web/threads.h"
#include "engine/web/web_engine.h"

using namespace edgedec::engine;

struct edgedec_web {
  WebEngine engine;
};

#ifdef __wasm__
extern "C" __attribute__((import_module("env"), import_name("edgedec_peek"))) int32_t edgedec_peek(edgedec_web*);
#else
constexpr int32_t (*edgedec_peek)(edgedec_web*) = nullptr;
#endif

namespace {

constexpr size_t kShareAlignment = 64;

// The text of the latest call.
std::string& said() {
  static std::string text;
  return text;
}

int32_t told(const Status& status) {
  if (status.ok()) return 0;
  JsonWriter out(false);
  out.begin_object().key("code").whole(static_cast<int>(status.code())).key("message").text(status.message());
  said() = out.key("hint").text(status.hint()).end_object().take();
  return static_cast<int32_t>(status.code());
}

// Runs a call that answers with a text.
template <class Act>
int32_t answered(Act act) {
  std::string out;
  const Status status = act(&out);
  said() = std::move(out);
  return told(status);
}

}  // namespace

extern "C" {

void* edgedec_web_alloc(size_t size) {
  if (size > SIZE_MAX - kShareAlignment) return nullptr;
  return std::aligned_alloc(kShareAlignment, (size + kShareAlignment - 1) / kShareAlignment * kShareAlignment);
}

void edgedec_web_free(void* memory) { std::free(memory); }

const char* edgedec_web_text(void) { return said().data(); }
size_t edgedec_web_text_size(void) { return said().size(); }

edgedec_web* edgedec_web_open(const char* options, size_t size) {
  std::unique_ptr<edgedec_web> made(new (std::nothrow) edgedec_web);
  if (!made) {
    told({Code::kNoMemory, "there is no memory for an engine"});
    return nullptr;
  }
  const int32_t code = answered([&](std::string* out) { return made->engine.open({options, size}, out); });
  return code ? nullptr : made.release();
}

void edgedec_web_close(edgedec_web* engine) { delete engine; }

int32_t edgedec_web_measure(edgedec_web* engine) {
  return answered([&](std::string*) { return engine->engine.measure(); });
}

int32_t edgedec_web_begin(edgedec_web* engine, const char* request, size_t size) {
  return answered([&](std::string* out) { return engine->engine.begin({request, size}, out); });
}

int32_t edgedec_web_next(edgedec_web* engine) {
  bool wanted = false;
  const int32_t code = answered([&](std::string* out) { return engine->engine.next(&wanted, out); });
  return code ? -1 : wanted;
}

const edgedec_web_pass* edgedec_web_pass_of(edgedec_web* engine) { return engine->engine.pass(); }

int32_t edgedec_web_give(edgedec_web* engine, double seconds) {
  return answered([&](std::string* out) { return engine->engine.give(seconds, out); });
}

void edgedec_web_stop(edgedec_web* engine) { engine->engine.stop(); }
void edgedec_web_lost(edgedec_web* engine) { engine->engine.lost(); }

int32_t edgedec_web_forget(edgedec_web* engine) {
  return answered([&](std::string*) { return engine->engine.forget(); });
}

int32_t edgedec_web_stats(edgedec_web* engine) {
  said() = engine->engine.stats();
  return 0;
}

int32_t edgedec_web_encode(edgedec_web* engine, const char* text, size_t size) {
  return answered([&](std::string* out) { return engine->engine.encode({text, size}, out); });
}

int32_t edgedec_web_peeks(edgedec_web* engine, const char* exits, size_t size, int32_t (*peek)(edgedec_web*)) {
  std::function<int32_t()> wait;
  if (peek) wait = [=] { return peek(engine); };
  else if (edgedec_peek) wait = [=] { return edgedec_peek(engine); };
  return answered([&](std::string* out) { return engine->engine.use_peeks({exits, size}, std::move(wait), out); });
}

int32_t edgedec_web_cpu(edgedec_web* engine) {
  return answered([&](std::string* out) { return engine->engine.use_cpu(out); });
}

int32_t edgedec_web_compute(edgedec_web* engine) {
  return answered([&](std::string*) { return engine->engine.compute(); });
}

void edgedec_web_help(void) { help_on_page(); }

int32_t edgedec_web_rotary(edgedec_web* engine, const float* inv_freq, size_t half, float* table) {
  return answered([&](std::string*) { return engine->engine.rotary(inv_freq, half, table); });
}

int32_t edgedec_web_steps(edgedec_web* engine, uint32_t behind, uint32_t taps, uint32_t* steps) {
  return answered([&](std::string*) { return engine->engine.steps(behind, taps, steps); });
}

int32_t edgedec_web_head(edgedec_web* engine, uint32_t row, const float* sums, size_t blocks, const int32_t* ids,
                         const float* coarse, const float* fine, size_t count, float capped) {
  return answered([&](std::string*) { return engine->engine.head(row, sums, blocks, {ids, count}, coarse, fine, capped); });
}

}  // extern "C"
