#include "engine/capi/reply.h"

#include <algorithm>

#include "engine/capi/loops.h"

namespace edgedec::engine {
namespace {

constexpr size_t kLookEvery = 32;
constexpr const char* kCertain = "grammar";  // the drafter of tokens that a form leaves no choice of

}  // namespace

Reply::Reply(const Tokenizer& tokenizer, const ReplyRequest& request, Span<const int32_t> end_ids,
             const Speculation* speculation, const Flag& stop, Clock& clock)
    : tokenizer_(tokenizer), request_(request), end_ids_(end_ids), speculation_(speculation), stop_(stop), clock_(clock),
      stream_(tokenizer) {}

Status Reply::begin(Engine& engine, const ReplyStart& start) {
  EDGEDEC_TRY(TextStream::of(tokenizer_, request_.stops, start.tokens, start.shown, start.spelled, &stream_));
  if (start.tags) thoughts_.emplace(tokenizer_, *start.tags, start.text, start.tokens);
  tags_ = start.tags;
  family_ = start.family;
  spelled_ = start.spelled;
  prompt_ = start.text;
  if (family_) read_calls();
  before_.assign(start.tokens.begin(), start.tokens.end());
  shown_ = start.shown;
  bound_ = start.bound;
  std::vector<int32_t> fed(start.prompt.begin(), start.prompt.end());
  fed.insert(fed.end(), before_.begin(), before_.end());
  const int64_t capacity = engine.forward().capacity();
  GenerateRequest request;
  request.prompt = fed;
  request.params = request_.params;
  request.max_tokens = std::min(request_.max_tokens ? request_.max_tokens : capacity, start.room ? start.room : capacity);
  request.said = before_.size();
  request.bound = start.bound;
  request.stop_ids.assign(end_ids_.begin(), end_ids_.end());
  request.drafts = request_.drafts;
  request.grammar = grammar_ = start.grammar;
  request.filter = start.grammar;
  started_ = clock_.now();
  if (!fed.empty()) reused_ = engine.reusable(fed);
  return engine.begin(request);
}

// Goes on behind the part of the reply that was told already.
void Reply::read_calls() {
  calls_.emplace(*family_, request_.tools);
  if (stream_.whole().empty()) return;
  ThinkingSplitter splitter(begins_thinking(prompt_, *tags_), *tags_);
  calls_->was_told(read().content.size());
  calls_->push(splitter.push(stream_.whole()).answer);
}

void Reply::end() {
  const std::string rest = stream_.flush(finish_ != EDGEDEC_FINISH_INTERRUPTED);
  if (!rest.empty()) say(-1, rest, kTarget);
  if (thoughts_) tell(-1, thoughts_->flush(), kTarget);
  if (calls_) show(-1, "", calls_->flush(), kTarget);
}

bool Reply::progress(int64_t done, int64_t total) {
  if (request_.on_prompt && request_.on_prompt(request_.user, static_cast<size_t>(done), static_cast<size_t>(total)))
    interrupted_ = true;
  return !interrupted_ && !stop_.is_set();
}

bool Reply::step(const Step& step) {
  last_ = clock_.now();
  if (tokens_.empty()) first_ = last_;
  tokens_.push_back(step.token);
  bound_ = step.bound;
  say(step.token, ends(step.token) ? std::string() : stream_.push(step.token), step.source);
  return commit(step.token) && !over(step.finish);
}

// Lets the form of the reply go on behind a token; false where it cannot.
bool Reply::commit(int32_t token) {
  if (grammar_ && !ends(token)) failure_ = grammar_->commit(token);
  return failure_.ok();
}

bool Reply::ends(int32_t token) const { return std::find(end_ids_.begin(), end_ids_.end(), token) != end_ids_.end(); }

bool Reply::over(Finish finish) {
  const auto count = static_cast<int64_t>(tokens_.size());
  if (stream_.stopped() || finish == Finish::kStop) finish_ = EDGEDEC_FINISH_STOP;
  else if (finish == Finish::kLength) finish_ = count != request_.max_tokens ? EDGEDEC_FINISH_CONTEXT : EDGEDEC_FINISH_LENGTH;
  else if (interrupted_ || stop_.is_set()) finish_ = EDGEDEC_FINISH_INTERRUPTED;
  else if (!request_.max_tokens && tokens_.size() % kLookEvery == 0 && goes_round()) finish_ = EDGEDEC_FINISH_LOOP;
  else return false;
  return true;
}

bool Reply::goes_round() const {
  std::string tail;
  for (size_t at = tokens_.size() - std::min(tokens_.size(), kLoopTail); at < tokens_.size(); ++at)
    tokenizer_.append_piece(tokens_[at], &tail);
  return loops(tokens_, tail);
}

void Reply::say(int32_t token, const std::string& text, Source source) {
  shown_ += text;
  tell(token, thoughts_ ? thoughts_->push(token, text) : ThinkingSplitter::Parts{"", text}, source);
}

void Reply::tell(int32_t token, const ThinkingSplitter::Parts& parts, Source source) {
  show(token, parts.thinking, calls_ ? calls_->push(parts.answer) : parts.answer, source);
}

void Reply::show(int32_t token, const std::string& thought, const std::string& text, Source source) {
  if (!request_.on_token || (token < 0 && text.empty() && thought.empty())) return;
  const bool drafted = source != kTarget;
  const bool certain = drafted && speculation_ && source == speculation_->certain();
  const char* drafter = nullptr;
  if (certain) drafter = kCertain;
  else if (drafted && speculation_) drafter = speculation_->drafter(static_cast<size_t>(source)).name();
  const edgedec_token told = {token,   drafted, text.c_str(), text.size(), drafter, clock_.now() - started_,
                              thought.c_str(), thought.size()};
  if (request_.on_token(request_.user, &told)) interrupted_ = true;
}

std::vector<int32_t> Reply::text_tokens() const {
  std::vector<int32_t> found = before_;
  for (int32_t token : tokens_)
    if (!ends(token)) found.push_back(token);
  return found;
}

bool Reply::exact() const { return text() == decoded(tokenizer_, text_tokens(), spelled_); }

}  // namespace edgedec::engine
