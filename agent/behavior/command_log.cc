#include "agent/behavior/command_log.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <utility>

#include "agent/behavior/shell_run.h"

namespace ghostfleet::agent {

namespace {

constexpr std::string_view kDateLetters = "aAbBcdDeFgGHIjklmMnNpPrRsStTuUVwWxXyYzZ%";
constexpr Duration kLeastAhead = std::chrono::minutes(1), kMostAhead = std::chrono::hours(1);

bool known_format(std::string_view format) {
  for (size_t i = 0; i < format.size(); ++i) {
    if (static_cast<unsigned char>(format[i]) < ' ') return false;
    if (format[i] != '%') continue;
    if (++i == format.size() || kDateLetters.find(format[i]) == std::string_view::npos) return false;
  }
  return format.size() <= 256;
}

std::string one_field(char letter, WallTime t) {
  if (letter == 's') return std::to_string(t.seconds());
  if (letter == 'N') {
    const std::string nanos = std::to_string(t.ns % 1000000000);
    return std::string(9 - nanos.size(), '0') + nanos;
  }
  if (letter == 'Z') return "UTC";
  if (letter == 'P') return t.seconds() / 43200 % 2 == 0 ? "am" : "pm";
  const char format[] = {'%', letter, '\0'};
  const std::time_t seconds = t.seconds();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char out[128] = {};
  const size_t size = std::strftime(out, sizeof out, format, &parts);
  return {out, size};
}

std::string format_date(std::string_view format, WallTime t) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '%' && i + 1 < format.size()) {
      out += one_field(format[++i], t);
    } else {
      out += format[i];
    }
  }
  return out;
}

std::string squeeze(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  return out;
}

// What stands between the bytes of a mark.
std::string fill_mark(std::string_view inside, WallTime started, std::string_view host) {
  if (inside == "H") return std::string(host);
  const size_t colon = inside.find(':');
  int64_t ns = 0;
  if (inside.empty() || colon == std::string_view::npos) return {};
  std::from_chars(inside.data() + 1, inside.data() + colon, ns);
  std::string format(inside.substr(colon + 1));
  std::replace(format.begin(), format.end(), kMarkBlank, ' ');
  std::string text = format_date(format, started + Duration(ns));
  return inside[0] == 'S' ? squeeze(text) : text;
}

}  // namespace

// ---- marks

bool has_mark(std::string_view text) { return text.find(kMarkBegin) != std::string_view::npos; }

std::optional<std::string> date_mark(Duration at, std::string_view format) {
  if (!known_format(format)) return std::nullopt;
  std::string escaped(format);
  std::replace(escaped.begin(), escaped.end(), ' ', kMarkBlank);
  return kMarkBegin + ("D" + std::to_string(at.count())) + ":" + escaped + kMarkEnd;
}

std::string host_mark() { return {kMarkBegin, 'H', kMarkEnd}; }

std::string squeezed_marks(std::string_view text) {
  std::string out(text);
  for (size_t at = out.find(kMarkBegin); at != std::string::npos; at = out.find(kMarkBegin, at + 1)) {
    if (at + 1 < out.size() && out[at + 1] == 'D') out[at + 1] = 'S';
  }
  return out;
}

std::string fill_marks(std::string_view text, WallTime started, std::string_view host) {
  std::string out;
  while (true) {
    const size_t begin = std::min(text.find(kMarkBegin), text.size());
    // The rest of a mark whose beginning was cut off.
    const size_t stray = text.substr(0, begin).rfind(kMarkEnd);
    out += stray == std::string_view::npos ? text.substr(0, begin) : text.substr(stray + 1, begin - stray - 1);
    text.remove_prefix(begin);
    const size_t end = text.find(kMarkEnd);
    if (text.empty() || end == std::string_view::npos) return out;
    out += fill_mark(text.substr(1, end - 1), started, host);
    text.remove_prefix(end + 1);
  }
}

// ---- the tape

void CommandTape::add(Line line) {
  bytes_ += line.text.size() + sizeof(Line);
  lines_.push_back(std::move(line));
  if (lines_.size() <= 2 * kKeptLines && bytes_ <= 2 * kKeptBytes) return;
  // Those before the age that is asked for are rotated away, half of them at a time; those after it always fit the time
  // that is played ahead.
  size_t left = lines_.size() / 2;
  for (; left > 0 && lines_.front().at <= age_; --left) {
    bytes_ -= lines_.front().text.size() + sizeof(Line);
    lines_.pop_front();
    ++first_;
  }
}

void CommandTape::write(Duration at, bool err, std::string_view text) {
  std::string& open = open_[err ? 1 : 0];
  while (!text.empty()) {
    const size_t end = text.find('\n');
    open.append(text.substr(0, std::min(end, kMaxLine - std::min(open.size(), kMaxLine))));
    if (end == std::string_view::npos) return;
    add({at, err, false, std::exchange(open, {})});
    text.remove_prefix(end + 1);
  }
}

void CommandTape::close(Duration at) {
  for (const bool err : {false, true}) {
    std::string& open = open_[err ? 1 : 0];
    if (!open.empty()) add({at, err, true, std::exchange(open, {})});
  }
}

Duration CommandTape::skip(Duration at, Duration period, uint64_t lines) {
  const int64_t rounds = (age_ - at) / period;
  const int64_t needed = lines == 0 ? 1 : static_cast<int64_t>(kKeptLines / lines) + 2;
  if (rounds <= needed) return Duration(0);
  if (lines > 0) {
    first_ += lines_.size() + lines * static_cast<uint64_t>(rounds - needed);
    lines_.clear();
    bytes_ = 0;
  }
  return period * (rounds - needed);
}

// ---- the log

CommandLog::CommandLog(CommandLine line, std::vector<Files> starts)
    : line_(std::move(line)), starts_(std::move(starts)) {}

std::shared_ptr<const CommandTape> CommandLog::play(uint32_t attempt, Duration age,
                                                    std::optional<Duration> stopped) const {
  const uint32_t which = static_cast<uint32_t>(std::min<size_t>(attempt, starts_.size() - 1));
  const std::lock_guard lock(mutex_);
  std::erase_if(played_, [](const Played& p) { return p.tape.expired(); });
  for (const Played& played : played_) {
    auto tape = played.tape.lock();
    if (tape != nullptr && !stopped && played.attempt == which && tape->age() <= age && age <= tape->until())
      return tape;
  }
  const Duration until = stopped ? *stopped : age + std::clamp(age, kLeastAhead, kMostAhead);
  auto tape = std::make_shared<CommandTape>(age, until);
  std::vector<std::string> argv = process_of(line_);
  ShellRun run(line_, starts_[which], tape.get());
  const Flow flow = run.run(argv);
  if (stopped && flow == Flow::kForever) {
    tape->run_on();
    run.wait_until(*stopped);
    Flow after = Flow::kNext;
    run.terminate(&after);
  }
  // What goes on may still finish its line.
  if (flow != Flow::kForever || stopped) tape->close(run.elapsed());
  if (!stopped) played_.push_back({which, tape});
  return tape;
}

}  // namespace ghostfleet::agent
