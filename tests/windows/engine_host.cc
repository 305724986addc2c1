// The native engine behind lines of text, for a test on another system: `engine_host`, a request on each line of standard input,
// words between tabs, an answer on each line of standard output. Paths are UTF-8, which the words of a command line are not everywhere.
//   open FOLDER RUNTIME THREADS CONTEXT MEMORY DRAFT    ok
//   generate MOST TEMPERATURE SEED ID ID ...            ok, the ids, a semicolon, tokens reused and drafted ones accepted
//   form MOST TEMPERATURE SEED SCHEMA TEXT               the same of the reply to a text, in the form of a JSON schema
//   encode TEXT                                         ok and the ids
//   reply MOST TEXT                                     ok and the text of a chat's reply, line ends as \n
//   stats, save PATH, restore PATH                      ok, for stats with JSON
// Where a call fails: error, its code, its message, its hint.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "engine/edgedec.h"

namespace {

edgedec_engine* engine = nullptr;
edgedec_status status;

std::vector<std::string> words_of(std::string line) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
  std::vector<std::string> found(1);
  for (char one : line)
    if (one == '\t') found.emplace_back();
    else found.back() += one;
  return found;
}

std::string open(const std::vector<std::string>& words) {
  edgedec_options options;
  edgedec_options_init(&options);
  options.runtime_path = words[2].c_str();
  options.threads = static_cast<uint32_t>(std::stoul(words[3]));
  options.context = static_cast<uint32_t>(std::stoul(words[4]));
  options.memory = std::stoull(words[5]);
  options.draft = words[6].c_str();
  edgedec_close(engine);
  edgedec_open(words[1].c_str(), &options, &engine, &status);
  return {};
}

int hear(void* user, const edgedec_token* token) {
  if (token->id >= 0) static_cast<std::vector<int32_t>*>(user)->push_back(token->id);
  return 0;
}

int hear_text(void* user, const edgedec_token* token) {
  for (size_t at = 0; at < token->text_size; ++at) *static_cast<std::string*>(user) += token->text[at] == '\n' ? "\\n" : std::string(1, token->text[at]);
  return 0;
}

std::string listed(const std::vector<int32_t>& ids) {
  std::string text;
  for (int32_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return text;
}

// The reply to a text in a form, or to tokens.
std::string generate(const std::vector<std::string>& words) {
  std::vector<int32_t> prompt, reply;
  edgedec_sampling sampling;
  edgedec_sampling_init(&sampling);
  sampling.temperature = std::stod(words[2]);
  sampling.seed = std::stoull(words[3]);
  edgedec_request request;
  edgedec_request_init(&request);
  request.max_tokens = static_cast<uint32_t>(std::stoul(words[1]));
  request.sampling = &sampling;
  request.on_token = hear;
  request.user = &reply;
  edgedec_result result;
  result.size = sizeof result;
  if (words[0] == "form") {
    request.schema = words[4].c_str();
    edgedec_complete(engine, words[5].data(), words[5].size(), &request, &result, &status);
  } else {
    for (size_t at = 4; at < words.size(); ++at) prompt.push_back(std::stoi(words[at]));
    edgedec_generate(engine, prompt.data(), prompt.size(), &request, &result, &status);
  }
  if (status.code) return {};
  return listed(reply) + "; " + std::to_string(result.reused_tokens) + " " + std::to_string(result.accepted_tokens);
}

std::string encode(const std::string& text) {
  std::vector<int32_t> ids(text.size() + 1);
  size_t count = 0;
  if (edgedec_encode(engine, text.data(), text.size(), 0, ids.data(), ids.size(), &count, &status)) return {};
  ids.resize(count);
  return listed(ids);
}

std::string reply(const std::vector<std::string>& words) {
  std::string text;
  edgedec_sampling greedy;
  edgedec_sampling_init(&greedy);
  edgedec_request request;
  edgedec_request_init(&request);
  request.max_tokens = static_cast<uint32_t>(std::stoul(words[1]));
  request.sampling = &greedy;
  request.on_token = hear_text;
  request.user = &text;
  const edgedec_message message = {"user", words[2].c_str()};
  edgedec_reply(engine, &message, 1, &request, nullptr, &status);
  return text;
}

std::string stats() {
  char* json = nullptr;
  if (edgedec_stats(engine, &json, &status)) return {};
  std::string text = json;
  edgedec_free(json);
  return text;
}

std::string answer(const std::vector<std::string>& words) {
  if (words[0] == "open") return open(words);
  if (words[0] == "generate" || words[0] == "form") return generate(words);
  if (words[0] == "encode") return encode(words[1]);
  if (words[0] == "reply") return reply(words);
  if (words[0] == "stats") return stats();
  if (words[0] == "save") edgedec_save(engine, words[1].c_str(), &status);
  if (words[0] == "restore") edgedec_restore(engine, words[1].c_str(), &status);
  return {};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    status = {};
    const std::string said = answer(words_of(line));
    if (status.code)
      std::cout << "error\t" << status.code << '\t' << status.message << '\t' << status.hint << std::endl;
    else
      std::cout << "ok\t" << said << std::endl;
  }
  edgedec_close(engine);
  return 0;
}
