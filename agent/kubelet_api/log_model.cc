#include "agent/kubelet_api/log_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"

namespace ghostfleet::kubelet_api {
namespace {

constexpr Duration kDefaultEvery = std::chrono::seconds(5);
constexpr Duration kFirstGap = std::chrono::milliseconds(40);  // between the lines of the start
constexpr int kKilled = 137, kTerminated = 143;

uint64_t hash_of(uint64_t seed, uint64_t n) { return hash_mix(hash_mix(seed, n), n + 1); }

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

std::string format_nano_time(WallTime t) {
  const std::string seconds = format_time(t);  // ends with Z
  return fmt::format("{}.{:09}Z", seconds.substr(0, seconds.size() - 1), t.ns % 1000000000);
}

LogModel::LogModel(const agent::PodView& pod, const agent::ContainerView& container, const agent::AttemptView& attempt,
                   std::string_view node)
    : ns_(pod.ns),
      pod_(pod.name),
      container_(container.name),
      image_(container.image),
      node_(node),
      crash_(container.script.log_crash),
      lines_(container.script.log),
      quiet_(container.script.quiet),
      started_(attempt.started),
      seed_(hash_mix(hash_text(pod.uid, attempt.attempt), hash_text(container.name))) {
  if (container.script.command_log != nullptr && lines_.empty() && !quiet_) {
    script_ = container.script;
    attempt_ = attempt.attempt;
    host_ = pod.host_network ? std::string(node) : pod.name.substr(0, 63);
  }
  every_ = container.script.log_every.value_or(kDefaultEvery);
  if (lines_.empty()) {
    first_lines_ = 3;
    if (every_ == Duration(0)) every_ = kDefaultEvery;
  } else if (every_ == Duration(0)) {
    first_lines_ = lines_.size();
  }
  if (attempt.ended) end_at(attempt.finished, attempt.exit_code, attempt.last_words);
}

void LogModel::end_at(WallTime finished, int exit_code, std::string_view last_words) {
  if (ended_) return;
  finished_ = std::max(finished, started_);
  if (script_.command_log != nullptr) {
    ended_ = true;
    play_to_the_end(exit_code);
    return;
  }
  before_end_ = running_lines(finished_);
  make_last_words(exit_code, last_words);
  ended_ = true;
}

void LogModel::make_last_words(int exit_code, std::string_view told) {
  bad_end_ = exit_code != 0 && exit_code != kTerminated;
  if (!told.empty()) {
    last_words_ = split_lines(told);
    return;
  }
  if (quiet_ || exit_code == kKilled) return;
  if (bad_end_ && !crash_.empty()) {
    last_words_ = split_lines(crash_);
  } else if (lines_.empty()) {
    const std::string ts = format_nano_time(finished_);
    last_words_ = {bad_end_ ? fmt::format("ts={} level=error msg=\"exiting\" code={}", ts, exit_code)
                            : fmt::format("ts={} level=info msg=\"shut down\"", ts)};
  }
}

const agent::CommandTape& LogModel::tape(WallTime t) const {
  const Duration age = std::max(t - started_, Duration(0));
  if (tape_ == nullptr || (!ended_ && age > tape_->until())) tape_ = script_.command_log->play(attempt_, age);
  return *tape_;
}

// By itself, or because it was stopped: then what it does on SIGTERM is part of the log.
void LogModel::play_to_the_end(int exit_code) {
  const Duration age = finished_ - started_;
  const bool ends = !script_.exits.empty() && script_.exit_of(attempt_) != agent::kRunsOn;
  // Statuses hold whole seconds, and so does what an agent that came back knows of the start.
  const bool by_itself =
      ends && exit_code == script_.exit_of(attempt_) && age + std::chrono::seconds(1) >= script_.after_of(attempt_);
  if (by_itself || exit_code == kKilled) {
    if (!by_itself) written_ = age;
    tape_ = script_.command_log->play(attempt_, by_itself ? std::max(age, script_.after_of(attempt_)) : age);
    return;
  }
  const Duration stop = std::min(script_.stop_after.value_or(Duration(0)), age);
  tape_ = script_.command_log->play(attempt_, age, age - stop);
}

WallTime LogModel::time_of(uint64_t n) const {
  if (script_.command_log != nullptr) {
    const agent::CommandTape& played = tape(started_);
    if (n < played.first()) return started_;
    const uint64_t i = n - played.first();
    const WallTime at = started_ + (i < played.lines().size() ? played.lines()[i].at : played.until());
    return ended_ ? std::min(at, finished_) : at;
  }
  if (ended_ && n >= before_end_) return finished_;
  if (n < first_lines_) return started_ + kFirstGap * static_cast<int64_t>(n);
  const uint64_t k = n - first_lines_;
  const Duration begin = lines_.empty() ? std::chrono::seconds(1) : Duration(0);
  // Some unsteadiness, less than a quarter of the distance, so that the order stays.
  const Duration jitter =
      lines_.empty() ? Duration(static_cast<int64_t>(hash_of(seed_, n) % static_cast<uint64_t>(every_.count() / 4 + 1)))
                     : Duration(0);
  return started_ + begin + every_ * static_cast<int64_t>(k) + jitter;
}

// Lines of the running container until and with `t`.
uint64_t LogModel::running_lines(WallTime t) const {
  if (quiet_ || t < started_) return 0;
  uint64_t n = std::min<uint64_t>(first_lines_, static_cast<uint64_t>((t - started_) / kFirstGap) + 1);
  if (n < first_lines_ || (!lines_.empty() && first_lines_ > 0)) return n;
  const Duration begin = lines_.empty() ? std::chrono::seconds(1) : Duration(0);
  const Duration since = t - started_ - begin;
  if (since < Duration(0)) return n;
  const auto k = static_cast<uint64_t>(since / every_);
  n += k;
  return n + (time_of(n) <= t ? 1 : 0);
}

uint64_t LogModel::end(WallTime now) const {
  if (script_.command_log != nullptr) {
    const agent::CommandTape& played = tape(now);
    const bool over = ended_ && now >= finished_;
    const Duration age = std::min(over ? agent::CommandModel::kNeverEnds : now - started_, written_);
    const auto& lines = played.lines();
    const auto end =
        std::upper_bound(lines.begin(), lines.end(), age, [](Duration t, const auto& line) { return t < line.at; });
    return played.first() + static_cast<uint64_t>(end - lines.begin());
  }
  if (!ended_) return running_lines(now);
  return now < finished_ ? std::min(running_lines(now), before_end_) : before_end_ + end_lines();
}

uint64_t LogModel::begin(WallTime now) const {
  const uint64_t n = end(now);
  const uint64_t kept = n > kMaxLines ? n - kMaxLines : 0;
  return script_.command_log != nullptr ? std::max(kept, tape(now).first()) : kept;
}

uint64_t LogModel::before(WallTime t) const { return end(t - Duration(1)); }

LogLine LogModel::line(uint64_t n) const {
  const WallTime at = time_of(n);
  if (script_.command_log != nullptr) {
    const agent::CommandTape& played = tape(started_);
    const uint64_t i = n - played.first();
    if (n < played.first() || i >= played.lines().size()) return {at, false, {}};
    const agent::CommandTape::Line& line = played.lines()[i];
    return {at, line.err, agent::fill_marks(line.text, started_, host_), line.open};
  }
  if (ended_ && n >= before_end_) {
    const uint64_t k = n - before_end_;
    return {at, bad_end_, k < last_words_.size() ? fill(last_words_[k], n, at) : std::string()};
  }
  return {at, false, lines_.empty() ? default_text(n, at) : fill(lines_[n % lines_.size()], n, at)};
}

std::string LogModel::default_text(uint64_t n, WallTime at) const {
  const std::string ts = format_nano_time(at);
  if (n == 0) return fmt::format("ts={} level=info msg=\"starting\" image={}", ts, image_);
  if (n == 1) return fmt::format("ts={} level=info msg=\"configuration read\" pod={}/{} node={}", ts, ns_, pod_, node_);
  if (n == 2) return fmt::format("ts={} level=info msg=\"ready\"", ts);
  const uint64_t h = hash_of(seed_ + 1, n);
  static constexpr std::string_view kPaths[] = {"/", "/api/items", "/api/items/{}", "/healthz", "/api/users/{}/cart"};
  const std::string path = fmt::format(fmt::runtime(kPaths[h % 5]), h / 7 % 1000);
  const int status = h % 97 == 0 ? 404 : 200;
  return fmt::format("ts={} level=info msg=\"request\" method=GET path={} status={} duration={}ms", ts, path, status,
                     1 + h / 11 % 40);
}

std::string LogModel::fill(std::string_view text, uint64_t n, WallTime at) const {
  std::string out;
  while (!text.empty()) {
    const size_t open = std::min(text.find('{'), text.size());
    out += text.substr(0, open);
    text.remove_prefix(open);
    const size_t close = text.find('}');
    if (text.empty() || close == std::string_view::npos) break;
    const std::string_view place = text.substr(1, close - 1);
    if (place == "n") {
      out += std::to_string(n);
    } else if (place == "time") {
      out += format_nano_time(at);
    } else if (place == "pod") {
      out += pod_;
    } else if (place == "namespace") {
      out += ns_;
    } else if (place == "container") {
      out += container_;
    } else if (place == "node") {
      out += node_;
    } else {
      out += '{';  // no place: stays as it is
      text.remove_prefix(1);
      continue;
    }
    text.remove_prefix(close + 1);
  }
  return out + std::string(text);
}

}  // namespace ghostfleet::kubelet_api
