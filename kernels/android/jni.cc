// Java's side of engine/edgedec.h: the native methods of ai.edgedec.engine.Engine. Texts are UTF-8 in byte arrays, as
// Java's own strings for C are not UTF-8.
#include <jni.h>

#include <string>
#include <vector>

#include "engine/edgedec.h"

#define ENGINE(type, name) extern "C" JNIEXPORT type JNICALL Java_ai_edgedec_engine_Engine_##name

namespace {

edgedec_engine* engine_of(jlong handle) { return reinterpret_cast<edgedec_engine*>(handle); }

std::string text_of(JNIEnv* env, jbyteArray bytes) {
  std::string text(static_cast<size_t>(env->GetArrayLength(bytes)), '\0');
  env->GetByteArrayRegion(bytes, 0, static_cast<jsize>(text.size()), reinterpret_cast<jbyte*>(text.data()));
  return text;
}

jbyteArray bytes_of(JNIEnv* env, const char* text, size_t size) {
  jbyteArray bytes = env->NewByteArray(static_cast<jsize>(size));
  if (bytes) env->SetByteArrayRegion(bytes, 0, static_cast<jsize>(size), reinterpret_cast<const jbyte*>(text));
  return bytes;
}

jbyteArray bytes_of(JNIEnv* env, const char* text) { return bytes_of(env, text, std::char_traits<char>::length(text)); }

// Throws the failure of a call in Java; true where there was none.
bool done(JNIEnv* env, edgedec_code code, const edgedec_status& status) {
  if (env->ExceptionCheck()) return false;  // of a callback
  if (code == EDGEDEC_OK) return true;
  jclass kind = env->FindClass("ai/edgedec/engine/Engine$Failure");
  jmethodID make = kind ? env->GetMethodID(kind, "<init>", "(I[B[B)V") : nullptr;
  jbyteArray message = make ? bytes_of(env, status.message) : nullptr;
  jbyteArray hint = message ? bytes_of(env, status.hint) : nullptr;
  jobject failure = hint ? env->NewObject(kind, make, static_cast<jint>(code), message, hint) : nullptr;
  if (failure) env->Throw(static_cast<jthrowable>(failure));
  return false;
}

// An array of texts, of which each may be null.
struct Texts {
  std::vector<std::string> all;
  std::vector<const char*> at;

  Texts(JNIEnv* env, jobjectArray array) {
    const jsize count = env->GetArrayLength(array);
    all.resize(static_cast<size_t>(count));
    at.resize(all.size());
    for (jsize i = 0; i < count; ++i) {
      auto* one = static_cast<jbyteArray>(env->GetObjectArrayElement(array, i));
      if (!one) continue;
      all[static_cast<size_t>(i)] = text_of(env, one);
      at[static_cast<size_t>(i)] = all[static_cast<size_t>(i)].c_str();
      env->DeleteLocalRef(one);
    }
  }
};

// An object of Java that hears something during a call, on the thread of the call.
struct Hearer {
  JNIEnv* env;
  jobject object;
  jmethodID token = nullptr, prompt = nullptr, notice = nullptr;

  static int on_token(void* user, const edgedec_token* token) {
    auto* self = static_cast<Hearer*>(user);
    jbyteArray text = bytes_of(self->env, token->text, token->text_size);
    jbyteArray thought = text ? bytes_of(self->env, token->thought, token->thought_size) : nullptr;
    if (!thought) return 1;
    const bool end = self->env->CallBooleanMethod(self->object, self->token, text, thought, token->drafted != 0);
    self->env->DeleteLocalRef(thought);
    self->env->DeleteLocalRef(text);
    return self->env->ExceptionCheck() || end;
  }
  static int on_prompt(void* user, size_t done, size_t total) {
    auto* self = static_cast<Hearer*>(user);
    const bool end = self->env->CallBooleanMethod(self->object, self->prompt, static_cast<jlong>(done),
                                                  static_cast<jlong>(total));
    return self->env->ExceptionCheck() || end;
  }
  static void on_notice(void* user, const char* line) {
    auto* self = static_cast<Hearer*>(user);
    if (self->env->ExceptionCheck()) return;
    jbyteArray text = bytes_of(self->env, line);
    if (text) self->env->CallVoidMethod(self->object, self->notice, text);
    if (text) self->env->DeleteLocalRef(text);
  }
};

// The settings of a reply. `schema` may be null.
struct Asked {
  jint most;
  jbyteArray schema;
};

// Runs a call that replies, tells `listener`, and writes the numbers of its result.
template <class Call>
void compute(JNIEnv* env, const Asked& asked, jobject listener, jintArray counts, jdoubleArray seconds, Call call) {
  Hearer hearer{env, listener};
  jclass kind = env->GetObjectClass(listener);
  hearer.token = env->GetMethodID(kind, "token", "([B[BZ)Z");
  hearer.prompt = hearer.token ? env->GetMethodID(kind, "prompt", "(JJ)Z") : nullptr;
  if (env->ExceptionCheck()) return;
  edgedec_request request;
  edgedec_request_init(&request);
  request.max_tokens = static_cast<uint32_t>(asked.most);
  const std::string schema = asked.schema ? text_of(env, asked.schema) : std::string();
  if (asked.schema) request.schema = schema.c_str();
  request.on_token = Hearer::on_token;
  request.on_prompt = Hearer::on_prompt;
  request.user = &hearer;
  edgedec_result result{};
  result.size = sizeof result;
  edgedec_status status{};
  if (!done(env, call(&request, &result, &status), status)) return;
  const jint numbers[8] = {
      result.finish, static_cast<jint>(result.prompt_tokens), static_cast<jint>(result.reused_tokens),
      static_cast<jint>(result.tokens), static_cast<jint>(result.passes), static_cast<jint>(result.drafted_tokens),
      static_cast<jint>(result.accepted_tokens), static_cast<jint>(result.dropped_messages)};
  const jdouble times[2] = {result.first_token_s, result.decode_s};
  env->SetIntArrayRegion(counts, 0, 8, numbers);
  if (!env->ExceptionCheck()) env->SetDoubleArrayRegion(seconds, 0, 2, times);
}

}  // namespace

ENGINE(jbyteArray, nativeVersion)(JNIEnv* env, jclass) { return bytes_of(env, edgedec_version()); }

// numbers: memory, context, threads, verify. texts: drafts, runtime, folder of costs, folder of tables.
ENGINE(jlong, open)(JNIEnv* env, jclass, jbyteArray folder, jlongArray numbers, jobjectArray texts, jobject notices) {
  jlong number[4];
  env->GetLongArrayRegion(numbers, 0, 4, number);
  const Texts text(env, texts);
  if (env->ExceptionCheck() || text.at.size() != 4) return 0;
  edgedec_options options;
  edgedec_options_init(&options);
  options.memory = static_cast<uint64_t>(number[0]);
  options.context = static_cast<uint32_t>(number[1]);
  options.threads = static_cast<uint32_t>(number[2]);
  options.verify = number[3] != 0;
  options.draft = text.at[0];
  options.runtime_path = text.at[1];
  options.cost_folder = text.at[2];
  options.tables_folder = text.at[3];
  Hearer hearer{env, notices};
  if (notices) {
    hearer.notice = env->GetMethodID(env->GetObjectClass(notices), "notice", "([B)V");
    options.notice = Hearer::on_notice;
    options.notice_user = &hearer;
  }
  edgedec_engine* engine = nullptr;
  edgedec_status status{};
  const edgedec_code code = edgedec_open(text_of(env, folder).c_str(), &options, &engine, &status);
  if (done(env, code, status)) return reinterpret_cast<jlong>(engine);
  edgedec_close(engine);
  return 0;
}

// messages: role, text, role, text and so on.
ENGINE(void, reply)(JNIEnv* env, jclass, jlong handle, jobjectArray messages, jint most, jbyteArray schema,
                    jobject listener, jintArray counts, jdoubleArray seconds) {
  const Texts text(env, messages);
  std::vector<edgedec_message> all;
  for (size_t i = 0; i + 1 < text.at.size(); i += 2) all.push_back({text.at[i], text.at[i + 1]});
  compute(env, {most, schema}, listener, counts, seconds, [&](const edgedec_request* request, edgedec_result* result, edgedec_status* status) {
    return edgedec_reply(engine_of(handle), all.data(), all.size(), request, result, status);
  });
}

ENGINE(void, more)(JNIEnv* env, jclass, jlong handle, jint most, jbyteArray schema, jobject listener, jintArray counts,
                   jdoubleArray seconds) {
  compute(env, {most, schema}, listener, counts, seconds, [&](const edgedec_request* request, edgedec_result* result, edgedec_status* status) {
    return edgedec_more(engine_of(handle), request, result, status);
  });
}

ENGINE(void, stop)(JNIEnv*, jclass, jlong handle) { edgedec_stop(engine_of(handle)); }

ENGINE(jbyteArray, stats)(JNIEnv* env, jclass, jlong handle) {
  char* json = nullptr;
  edgedec_status status{};
  const edgedec_code code = edgedec_stats(engine_of(handle), &json, &status);
  jbyteArray bytes = done(env, code, status) ? bytes_of(env, json) : nullptr;
  edgedec_free(json);
  return bytes;
}

ENGINE(void, save)(JNIEnv* env, jclass, jlong handle, jbyteArray path) {
  edgedec_status status{};
  const edgedec_code code = edgedec_save(engine_of(handle), text_of(env, path).c_str(), &status);
  done(env, code, status);
}

ENGINE(void, restore)(JNIEnv* env, jclass, jlong handle, jbyteArray path) {
  edgedec_status status{};
  const edgedec_code code = edgedec_restore(engine_of(handle), text_of(env, path).c_str(), &status);
  done(env, code, status);
}

ENGINE(void, measureAgain)(JNIEnv* env, jclass, jlong handle) {
  edgedec_status status{};
  const edgedec_code code = edgedec_measure_again(engine_of(handle), &status);
  done(env, code, status);
}

ENGINE(void, close)(JNIEnv*, jclass, jlong handle) { edgedec_close(engine_of(handle)); }
