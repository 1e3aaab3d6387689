#include "agent/behavior/behavior.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace ghostfleet::agent {

namespace {

constexpr size_t kMaxProblems = 8;
constexpr size_t kMaxCodes = 1000;
constexpr size_t kMaxPoints = 1000;
constexpr size_t kMaxLogText = 4096;  // of one word
constexpr size_t kMaxLogLines = 64;
constexpr size_t kMaxReads = 64;
constexpr size_t kMaxPath = 4096;
constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kBadCode = "not an exit code from 0 to 255";

bool parse_code(std::string_view text, int* out) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 255) return false;
  *out = value;
  return true;
}

bool parse_codes(std::string_view text, std::vector<int>* out) {
  std::vector<int> codes;
  for (const std::string_view part : comma_parts(text)) {
    int code = 0;
    if (!parse_code(part, &code) || codes.size() == kMaxCodes) return false;
    codes.push_back(code);
  }
  *out = std::move(codes);
  return true;
}

bool parse_probability(std::string_view text, double* out) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > 1) return false;
  *out = value;
  return true;
}

// The inside of NAME(...); nothing when the text is none.
std::optional<std::string_view> inside_of(std::string_view text, std::string_view name) {
  if (!text.starts_with(name) || text.size() < name.size() + 2) return std::nullopt;
  if (text[name.size()] != '(' || text.back() != ')') return std::nullopt;
  return text.substr(name.size() + 1, text.size() - name.size() - 2);
}

// "0:0.9, 1:0.1"
std::string parse_odds(std::string_view text, std::vector<std::pair<int, double>>* out) {
  std::vector<std::pair<int, double>> odds;
  double sum = 0;
  for (const std::string_view part : comma_parts(text)) {
    const size_t colon = part.find(':');
    int code = 0;
    double share = 0;
    if (colon == std::string_view::npos || !parse_code(trimmed(part.substr(0, colon)), &code) ||
        !parse_probability(trimmed(part.substr(colon + 1)), &share) || odds.size() == 256)
      return fmt::format("{}: CODE:PROBABILITY is expected, e.g. odds(0:0.9, 1:0.1)", part);
    odds.emplace_back(code, share);
    sum += share;
  }
  if (std::fabs(sum - 1) > 1e-6) return fmt::format("the probabilities make {:.6g}, 1 is expected", sum);
  *out = std::move(odds);
  return "";
}

// "0s:10%, 1m:80%"
std::string parse_curve(std::string_view text, FigureUnit unit, UseCurve* out) {
  UseCurve curve;
  for (const std::string_view part : comma_parts(text)) {
    const size_t colon = part.find(':');
    if (colon == std::string_view::npos || curve.points.size() == kMaxPoints)
      return fmt::format("{}: AGE:AMOUNT is expected, e.g. curve(0s:10%, 1m:80%)", part);
    UseCurve::Point point;
    bool share = false;
    std::string wrong = parse_behavior_duration(trimmed(part.substr(0, colon)), &point.at);
    if (wrong.empty()) wrong = parse_figure_number(trimmed(part.substr(colon + 1)), unit, &point.value, &share);
    if (!wrong.empty()) return fmt::format("{}: {}", part, wrong);
    if (!curve.points.empty() && point.at <= curve.points.back().at)
      return fmt::format("{}: an age above that of the point before is expected", part);
    if (!curve.points.empty() && share != curve.share) return fmt::format("{}: all percentages or none", part);
    curve.share = share;
    curve.points.push_back(point);
  }
  *out = std::move(curve);
  return "";
}

UseCurve level(const Figure& figure, double u) { return {figure.is_share(), {{Duration(0), figure.at(u)}}}; }

}  // namespace

// ---- use

double UseCurve::at(Duration age) const {
  if (points.empty()) return 0;
  if (age <= points.front().at) return points.front().value;
  for (size_t i = 1; i < points.size(); ++i) {
    const Point& a = points[i - 1];
    const Point& b = points[i];
    if (age >= b.at) continue;
    return a.value +
           (b.value - a.value) * static_cast<double>((age - a.at).count()) / static_cast<double>((b.at - a.at).count());
  }
  return points.back().value;
}

double UseCurve::sum(Duration age) const {
  const auto seconds = [](Duration d) { return static_cast<double>(d.count()) * 1e-9; };
  if (points.empty() || age <= Duration(0)) return 0;
  double out = points.front().value * seconds(std::min(age, points.front().at));
  for (size_t i = 1; i < points.size() && age > points[i - 1].at; ++i) {
    const Duration end = std::min(age, points[i].at);
    out += (points[i - 1].value + at(end)) / 2 * seconds(end - points[i - 1].at);
  }
  if (age > points.back().at) out += points.back().value * seconds(age - points.back().at);
  return out;
}

// ---- chance

namespace {

int pick(const std::vector<std::pair<int, double>>& odds, double u) {
  for (const auto& [code, share] : odds) {
    if (u < share) return code;
    u -= share;
  }
  return odds.back().first;
}

void draw_crash(const Draws& draws, uint64_t seed, uint32_t attempt, uint32_t line, Script* out) {
  if (draws.crash == 0 || (draws.crash_attempts != 0 && line >= draws.crash_attempts)) return;
  if (draw_unit(seed, "crash", attempt) >= draws.crash) return;
  const Duration at = to_duration(draws.crash_after.at(draw_unit(seed, "crash-after", attempt)));
  if (!out->exits.empty() && out->after <= at) return;  // it has ended by then
  out->exits = {draws.crash_exit};
  out->after = at;
}

}  // namespace

Script drawn_script(const Script& script, uint64_t seed, uint32_t attempt, uint32_t line) {
  Script out = script;
  if (script.draws == nullptr) return out;
  const Draws& draws = *script.draws;
  out.draws.reset();
  const auto time = [&](const std::optional<Figure>& figure, std::string_view what, Duration fallback) {
    return figure ? to_duration(figure->at(draw_unit(seed, what, attempt))) : fallback;
  };
  out.after = time(draws.after, "after", script.after_of(line));
  out.afters.clear();
  out.ready = time(draws.ready, "ready", script.ready);
  out.started = time(draws.started, "started", script.started);
  // No time at all would mean that its probe never fails.
  if (draws.live) out.live = std::max(time(draws.live, "live", {}), Duration(1));
  if (draws.stop_after) out.stop_after = time(draws.stop_after, "stop-after", {});
  if (draws.cpu) out.cpu = level(*draws.cpu, draw_unit(seed, "cpu", attempt));
  if (draws.memory) out.memory = level(*draws.memory, draw_unit(seed, "memory", attempt));
  if (!draws.odds.empty()) {
    out.exits = {pick(draws.odds, draw_unit(seed, "exit", attempt))};
  } else if (!script.exits.empty()) {
    out.exits = {script.exit_of(line)};
  }
  draw_crash(draws, seed, attempt, line, &out);
  return out;
}

// ---- words

const std::vector<std::string>& behavior_words() {
  static const std::vector<std::string> kWords = {
      "exit",      "after",     "stop",   "stop-after",  "ready",       "live",           "started",  "log",
      "log-every", "log-crash", "crash",  "crash-after", "crash-exit",  "crash-attempts", "cpu",      "memory",
      "storage",   "logs",      "inodes", "pids",        "volume:NAME", "read",           "read-exit"};
  return kWords;
}

ScriptReader::ScriptReader(Script defaults, const Histograms* histograms)
    : script_(std::move(defaults)), histograms_(histograms) {
  static const Histograms kNone;
  if (histograms_ == nullptr) histograms_ = &kNone;
  if (script_.draws != nullptr) draws_ = *script_.draws;
}

Script ScriptReader::finish() {
  script_.draws = draws_.empty() ? nullptr : std::make_shared<const Draws>(std::move(draws_));
  return std::move(script_);
}

std::string ScriptReader::take_exit(std::string_view value) {
  if (const auto inside = inside_of(value, "odds")) {
    std::string wrong = parse_odds(*inside, &draws_.odds);
    if (wrong.empty()) script_.exits = {0};  // it ends; how is drawn
    return wrong;
  }
  if (!parse_codes(value, &script_.exits)) return std::string(kBadCode);
  draws_.odds.clear();
  return "";
}

std::string ScriptReader::take_figure(std::string_view value, std::optional<Figure>* drawn, Duration* out) {
  if (value.find('(') == std::string_view::npos) {
    std::string wrong = parse_behavior_duration(value, out);
    if (wrong.empty()) drawn->reset();
    return wrong;
  }
  Figure figure;
  std::string wrong = Figure::parse(value, FigureUnit::kDuration, *histograms_, &figure);
  if (wrong.empty()) *drawn = figure;
  return wrong;
}

std::string ScriptReader::take_use(std::string_view value, FigureUnit unit, std::optional<Figure>* drawn,
                                   UseCurve* out) {
  std::string wrong;
  if (const auto inside = inside_of(value, "curve")) {
    wrong = parse_curve(*inside, unit, out);
    if (wrong.empty()) drawn->reset();
    return wrong;
  }
  Figure figure;
  wrong = Figure::parse(value, unit, *histograms_, &figure);
  if (!wrong.empty()) return wrong;
  drawn->reset();
  *out = level(figure, 0);
  if (!figure.is_constant()) *drawn = figure;
  return "";
}

// What is not left to chance.
std::string ScriptReader::take_constant_use(std::string_view value, UseCurve* out) {
  std::optional<Figure> drawn;
  UseCurve curve;
  std::string wrong = take_use(value, FigureUnit::kBytes, &drawn, &curve);
  if (wrong.empty() && drawn) wrong = "an amount like 2Gi or a curve(0s:1Gi, 1m:5Gi) is expected";
  if (wrong.empty()) *out = std::move(curve);
  return wrong;
}

std::string ScriptReader::take_volume(std::string_view volume, std::string_view value) {
  constexpr size_t kMostVolumes = 32;
  const auto known = std::find_if(script_.volumes.begin(), script_.volumes.end(),
                                  [volume](const auto& v) { return v.first == volume; });
  if (volume.empty() || (known == script_.volumes.end() && script_.volumes.size() == kMostVolumes))
    return "the name of an emptyDir volume is expected behind volume:, of at most 32 volumes";
  UseCurve curve;
  std::string wrong = take_constant_use(value, &curve);
  if (!wrong.empty()) return wrong;
  if (known != script_.volumes.end()) {
    known->second = std::move(curve);
  } else {
    script_.volumes.emplace_back(volume, std::move(curve));
  }
  return wrong;
}

std::string ScriptReader::take_log(std::string_view key, std::string_view value) {
  if (value.size() > kMaxLogText) return "longer than 4096 bytes";
  if (key == "log-crash") {
    script_.log_crash = value;
    return "";
  }
  if (key == "log-every") {
    Duration every{0};
    if (!parse_behavior_duration(value, &every).empty() ||
        (every > Duration(0) && every < std::chrono::milliseconds(1))) {
      return "not a duration from 1ms on, or 0";
    }
    script_.log_every = every;
    return "";
  }
  if (!std::exchange(own_log_, true)) script_.log.clear();
  script_.quiet = value == "none";
  if (script_.quiet) {
    script_.log.clear();
    return "";
  }
  if (script_.log.size() == kMaxLogLines) return "more than 64 lines";
  script_.log.emplace_back(value);
  return "";
}

std::string ScriptReader::take_crash(std::string_view key, std::string_view value) {
  if (key == "crash") return parse_probability(value, &draws_.crash) ? "" : "not a probability from 0 to 1";
  if (key == "crash-after") return Figure::parse(value, FigureUnit::kDuration, *histograms_, &draws_.crash_after);
  if (key == "crash-exit") {
    int code = 0;
    if (!parse_code(value, &code) || code == 0) return "not an exit code from 1 to 255";
    draws_.crash_exit = code;
    return "";
  }
  uint32_t attempts = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), attempts);
  if (error != std::errc() || end != value.data() + value.size()) return "not a number of attempts; 0 means all";
  draws_.crash_attempts = attempts;
  return "";
}

// "2m30s:/data/weights"
std::string ScriptReader::take_read(std::string_view value) {
  const size_t colon = value.find(':');
  const bool control = std::any_of(value.begin(), value.end(), [](unsigned char c) { return c < ' ' || c == 127; });
  if (colon == std::string_view::npos || value.substr(colon + 1, 1) != "/" || control)
    return "AGE:PATH is expected, with a path from / on, e.g. read=30s:/data/weights";
  ReadStep step;
  std::string wrong = parse_behavior_duration(value.substr(0, colon), &step.at);
  if (!wrong.empty()) return wrong;
  step.path = value.substr(colon + 1);
  if (step.path.size() > kMaxPath) return "a path longer than 4096 bytes";
  if (!std::exchange(own_reads_, true)) script_.reads.clear();
  if (script_.reads.size() == kMaxReads) return "more than 64 reads";
  const auto later = std::upper_bound(script_.reads.begin(), script_.reads.end(), step.at,
                                      [](Duration at, const ReadStep& s) { return at < s.at; });
  script_.reads.insert(later, std::move(step));
  return "";
}

std::string ScriptReader::take(std::string_view key, std::string_view value) {
  if (key == "exit") return take_exit(value);
  if (key == "stop") return parse_code(value, &script_.stop) ? "" : std::string(kBadCode);
  if (key == "after") {
    std::string wrong = take_figure(value, &draws_.after, &script_.after);
    if (wrong.empty()) script_.afters.clear();
    return wrong;
  }
  if (key == "ready") return take_figure(value, &draws_.ready, &script_.ready);
  if (key == "live") return take_figure(value, &draws_.live, &script_.live);
  if (key == "started") return take_figure(value, &draws_.started, &script_.started);
  if (key == "stop-after") {
    Duration d{0};
    std::string wrong = take_figure(value, &draws_.stop_after, &d);
    if (wrong.empty()) script_.stop_after = d;
    return wrong;
  }
  if (key == "log" || key == "log-every" || key == "log-crash") return take_log(key, value);
  if (key.starts_with("crash") &&
      std::find(behavior_words().begin(), behavior_words().end(), key) != behavior_words().end()) {
    return take_crash(key, value);
  }
  if (key == "read") return take_read(value);
  if (key == "read-exit") {
    int code = 0;
    if (!parse_code(value, &code) || code == 0) return "not an exit code from 1 to 255";
    script_.read_exit = code;
    return "";
  }
  if (key == "cpu") return take_use(value, FigureUnit::kCores, &draws_.cpu, &script_.cpu);
  if (key == "memory") return take_use(value, FigureUnit::kBytes, &draws_.memory, &script_.memory);
  if (key == "storage") return take_constant_use(value, &script_.storage);
  if (key == "logs") return take_constant_use(value, &script_.logs);
  if (key == "inodes") return take_constant_use(value, &script_.inodes);
  if (key == "pids") return take_constant_use(value, &script_.pids);
  if (key.starts_with("volume:")) return take_volume(key.substr(7), value);
  return fmt::format("unknown word; known are {}", fmt::join(behavior_words(), ", "));
}

// ---- the annotation

namespace {

// Takes a quoted value off the front of `text`, which begins with the quote. False: it is not closed.
bool take_quoted(std::string_view* text, std::string* out) {
  text->remove_prefix(1);
  while (!text->empty() && text->front() != '"') {
    char c = text->front();
    text->remove_prefix(1);
    if (c == '\\' && !text->empty()) {
      c = text->front() == 'n' ? '\n' : text->front() == 't' ? '\t' : text->front();
      text->remove_prefix(1);
    }
    *out += c;
  }
  if (text->empty()) return false;
  text->remove_prefix(1);
  return true;
}

// The value ends at the first blank that is not inside a parenthesis.
size_t plain_value_size(std::string_view text, bool figure) {
  const size_t blank = std::min(text.find_first_of(kSpace), text.size());
  const size_t open = text.find('(');
  if (!figure || open >= blank) return blank;
  const size_t close = text.find(')', open);
  if (close == std::string_view::npos) return blank;
  return std::min(text.find_first_of(kSpace, close), text.size());
}

struct Word {
  std::string key, value;
  bool closed = true;
};

// The next word; nothing at the end of the text.
std::optional<Word> next_word(std::string_view* text) {
  const size_t from = text->find_first_not_of(kSpace);
  if (from == std::string_view::npos) return std::nullopt;
  text->remove_prefix(from);
  Word word;
  word.key = text->substr(0, text->find_first_of(" \t\r\n="));
  text->remove_prefix(word.key.size());
  if (text->starts_with("=\"")) {
    text->remove_prefix(1);
    word.closed = take_quoted(text, &word.value);
  } else if (text->starts_with('=')) {
    text->remove_prefix(1);
    const size_t size = plain_value_size(*text, !word.key.starts_with("log") && word.key != "read");
    word.value = text->substr(0, size);
    text->remove_prefix(size);
  }
  return word;
}

}  // namespace

Script parse_script(std::string_view text, Script defaults, std::vector<std::string>* problems,
                    const Histograms* histograms) {
  ScriptReader reader(std::move(defaults), histograms);
  std::vector<std::string> seen;
  std::string after;  // as it was written
  bool ends = false;  // `exit` was tried
  const auto complain = [&](const std::string& word, std::string_view wrong) {
    if (problems != nullptr && problems->size() < kMaxProblems)
      problems->push_back(word.substr(0, 64) + ": " + std::string(wrong));
  };
  while (const std::optional<Word> word = next_word(&text)) {
    std::string wrong;
    const bool many = word->key == "log" || word->key == "read";
    const bool again = !many && std::find(seen.begin(), seen.end(), word->key) != seen.end();
    if (!word->closed) {
      wrong = "the quote is not closed";
    } else if (again) {
      wrong = "given twice; the first one counts";
    } else {
      wrong = reader.take(word->key, word->value);
    }
    const std::string shown = word->key + (word->value.empty() ? "" : "=") + word->value;
    if (word->key == "after" && wrong.empty()) after = shown;
    ends |= word->key == "exit";
    if (wrong.empty() && seen.size() < 64) seen.push_back(word->key);
    if (!wrong.empty()) complain(shown, wrong);
  }
  Script script = reader.finish();
  if (!after.empty() && !ends && script.exits.empty()) complain(after, "counts only with exit, e.g. exit=0");
  return script;
}

}  // namespace ghostfleet::agent
