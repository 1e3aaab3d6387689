// Running a script in the head: control flow, expansion, files. What single commands do is in shell_utilities.cc.
#include "agent/behavior/shell_run.h"

#include <algorithm>
#include <utility>

#include "agent/behavior/shell_arithmetic.h"

namespace ghostfleet::agent {

using shell::assignment;
using shell::is_name;
using shell::Node;
using shell::NodeKind;

namespace {

constexpr size_t npos = std::string::npos;
constexpr size_t kMaxWord = 4 * CommandModel::kMaxText;  // of one word, and
constexpr size_t kMaxWords = 4 * kMaxWord;               // of a command

bool under(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) &&
         (folder.back() == '/' || path[folder.size()] == '/');
}

void strip_newlines(std::string* text) {
  while (!text->empty() && text->back() == '\n') text->pop_back();
}

}  // namespace

Flow ShellRun::run(const std::vector<std::string>& argv) { return command(argv, {}); }

bool ShellRun::terminate(Flow* flow) {
  *flow = Flow::kNext;
  if (!trap_) {
    if (handles_term_) status_ = term_status_;
    return handles_term_;
  }
  const shell::Tree tree = shell::parse(*trap_);
  if (tree == nullptr) {
    *flow = Flow::kUnknown;
    return true;
  }
  steps_ = 0;
  exit_on_error_ = false;
  *flow = node(*tree, {});
  return true;
}

Flow ShellRun::done(int status) {
  status_ = status;
  return Flow::kNext;
}

// ---- control flow

Flow ShellRun::node(const Node& n, const Io& io) {
  if (++steps_ > (tape_ != nullptr ? CommandLog::kMaxSteps : CommandModel::kMaxSteps)) return Flow::kForever;
  switch (n.kind) {
    case NodeKind::kCommand: return simple(n, io);
    case NodeKind::kPipe: return pipe(n, io);
    case NodeKind::kSequence: return n.redirects.empty() ? sequence(n, io) : redirected(n, nullptr, io);
    case NodeKind::kCase: return choose(n, io);
    case NodeKind::kBackground: return background(*n.parts[0]);
    case NodeKind::kIf: return if_else(n, io);
    case NodeKind::kWhile:
    case NodeKind::kUntil: return loop(n, io);
    case NodeKind::kFor: return for_each(n, io);
    case NodeKind::kSubshell: return subshell(*n.parts[0], io);
    case NodeKind::kFunction: functions_[n.words[0]] = n.parts[0]; return done(0);
    case NodeKind::kAnd:
    case NodeKind::kOr: {
      const Flow flow = condition(*n.parts[0], io);
      if (flow != Flow::kNext) return flow;
      return (status_ == 0) == (n.kind == NodeKind::kAnd) ? node(*n.parts[1], io) : Flow::kNext;
    }
    case NodeKind::kNot: {
      const Flow flow = condition(*n.parts[0], io);
      if (flow == Flow::kNext) status_ = status_ == 0 ? 1 : 0;
      return flow;
    }
  }
  return Flow::kUnknown;
}

// What decides something does not end the script when it fails.
Flow ShellRun::condition(const Node& n, const Io& io) {
  const bool before = exit_on_error_;
  exit_on_error_ = false;
  const Flow flow = node(n, io);
  exit_on_error_ = before;
  return flow;
}

Flow ShellRun::sequence(const Node& n, const Io& io) {
  for (const shell::Tree& part : n.parts) {
    const Flow flow = node(*part, io);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Flow ShellRun::pipe(const Node& n, const Io& io) {
  std::string between = io.in != nullptr ? *io.in : std::string();
  for (size_t i = 0; i < n.parts.size(); ++i) {
    std::string out;
    const bool last = i + 1 == n.parts.size();
    Io mine = io;
    if (i > 0) mine.in = &between;
    if (!last) {
      mine.out = &out;
      mine.out_is_err = false;
    }
    const Flow flow = node(*n.parts[i], mine);
    if (flow != Flow::kNext) return flow == Flow::kExit && !last ? Flow::kUnknown : flow;
    if (!last) between = std::move(out);
  }
  return Flow::kNext;
}

// Only what does nothing but pass time may run beside the script.
Flow ShellRun::background(const Node& n) {
  if (n.kind != NodeKind::kCommand || n.words.empty() || n.words[0] != "sleep") return Flow::kUnknown;
  return done(0);
}

Flow ShellRun::if_else(const Node& n, const Io& io) {
  const Flow flow = condition(*n.parts[0], io);
  if (flow != Flow::kNext) return flow;
  if (status_ == 0) return node(*n.parts[1], io);
  status_ = 0;
  return n.parts.size() > 2 ? node(*n.parts[2], io) : Flow::kNext;
}

// A loop that has gone round without changing anything does so for ever: for its log most rounds need not be gone
// through.
void ShellRun::skip_rounds(Round* last) {
  if (tape_ == nullptr) return;
  const Duration period = elapsed_ - last->at;
  const bool same = last->known && last->changes == state_changes_ && last->status == status_ && period > Duration(0);
  if (same) elapsed_ += tape_->skip(elapsed_, period, tape_->count() - last->lines);
  *last = {true, elapsed_, tape_->count(), state_changes_, status_};
}

Flow ShellRun::loop(const Node& n, const Io& io) {
  Round round;
  while (true) {
    skip_rounds(&round);
    Flow flow = condition(*n.parts[0], io);
    if (flow != Flow::kNext) return flow;
    if ((status_ == 0) == (n.kind == NodeKind::kUntil)) return done(0);
    flow = node(*n.parts[1], io);
    if (flow == Flow::kBreak) return done(0);
    if (flow != Flow::kNext && flow != Flow::kContinue) return flow;
  }
}

Flow ShellRun::for_each(const Node& n, const Io& io) {
  std::vector<std::string> values;
  for (size_t i = 1; i < n.words.size(); ++i) {
    if (!expand(n.words[i], &values)) return Flow::kUnknown;
  }
  for (const std::string& value : values) {
    // How many fields the output of date has is not known before it is there.
    if (value.find(kMarkBlank) != npos) return Flow::kUnknown;
    set_variable(n.words[0], value);
    const Flow flow = node(*n.parts[0], io);
    if (flow == Flow::kBreak) break;
    if (flow != Flow::kNext && flow != Flow::kContinue) return flow;
  }
  return Flow::kNext;
}

// case WORD in PATTERN) ...
Flow ShellRun::choose(const Node& n, const Io& io) {
  std::string word;
  if (!expand_one(n.words[0], &word) || has_mark(word)) return Flow::kUnknown;
  for (size_t i = 0; i < n.parts.size(); ++i) {
    for (const std::string& pattern : n.patterns[i]) {
      std::string text;
      if (!expand_pattern(pattern, &text) || has_mark(text)) return Flow::kUnknown;
      if (shell::matches(text, word)) {
        status_ = 0;
        return node(*n.parts[i], io);
      }
    }
  }
  return done(0);
}

// What a subshell sets is gone after it, and its exit is not the script's.
Flow ShellRun::subshell(const Node& n, const Io& io) {
  const auto variables = variables_;
  const auto unset = unset_;
  const auto parameters = parameters_;
  const auto trap = trap_;
  const Flow flow = node(n, io);
  if (flow == Flow::kForever && trap_ != trap) return Flow::kUnknown;
  variables_ = variables;
  unset_ = unset;
  parameters_ = parameters;
  trap_ = trap;
  return flow == Flow::kExit ? Flow::kNext : flow;
}

Flow ShellRun::simple(const Node& n, const Io& io) {
  size_t first = 0;
  for (; first < n.words.size(); ++first) {
    const size_t equals = assignment(n.words[first]);
    if (equals == npos) break;
    std::string value;
    if (!expand_one(std::string_view(n.words[first]).substr(equals + 1), &value)) return Flow::kUnknown;
    const std::string name = n.words[first].substr(0, equals);
    if (traced_ && first + 1 == n.words.size()) trace({name + "=" + value}, io);
    set_variable(name, std::move(value));
  }
  if (first > 0) {
    // A variable for one command only is rare, and not known here.
    if (first < n.words.size()) return Flow::kUnknown;
    return n.redirects.empty() ? Flow::kNext : Flow::kUnknown;
  }
  std::vector<std::string> words;
  size_t size = 0, counted = 0;
  for (const std::string& word : n.words) {
    if (!expand(word, &words)) return Flow::kUnknown;
    for (; counted < words.size(); ++counted) size += words[counted].size() + 1;
    if (size > kMaxWords) return Flow::kUnknown;
  }
  if (traced_) trace(words, io);
  const Flow flow = redirected(n, &words, io);
  return flow == Flow::kNext && exit_on_error_ && status_ != 0 ? Flow::kExit : flow;
}

// >&2, 2>&1, 2> anything. False: it is something else.
bool ShellRun::redirect(const shell::Redirect& r, Io* mine) {
  if (r.op == ">&") {
    const bool to_err = r.number != "2" && r.target == "2";
    if (to_err) {
      mine->out = nullptr;
      mine->out_is_err = true;
    } else if (r.number == "2" && r.target == "1") {
      mine->err = Err::kOut;
    }
    return true;
  }
  if (r.number != "2" || r.op == "<" || r.op == "<<") return false;
  // What goes to a file from standard error is not kept.
  const bool log = r.target == "/dev/stdout" || r.target == "/dev/stderr" || r.target.starts_with("/proc/1/fd/");
  mine->err = log ? Err::kLog : Err::kNowhere;
  return true;
}

bool ShellRun::read_document(const shell::Redirect& r, std::string* out) {
  out->clear();
  bool had_quotes = false;
  if (!r.literal) return expand_text(r.target, true, false, out, &had_quotes);
  *out = r.target;
  return true;
}

Flow ShellRun::redirected(const Node& n, const std::vector<std::string>* words, const Io& io) {
  std::string in, out, path;
  bool append = false;
  Io mine = io;
  for (const shell::Redirect& r : n.redirects) {
    if (redirect(r, &mine)) continue;
    if (r.op == "<<") {
      if (!read_document(r, &in)) return Flow::kUnknown;
      mine.in = &in;
      continue;
    }
    std::string target;
    if (!expand_one(r.target, &target) || target.empty()) return Flow::kUnknown;
    if (r.op == "<") {
      const std::optional<bool> there = file_is_there(target);
      if (!there) return Flow::kUnknown;
      if (!*there) {
        complain(is_busybox() ? "sh: can't open " + target + ": no such file\n"
                              : "sh: 1: cannot open " + target + ": No such file\n",
                 mine);
        return done(1);
      }
      in = files_[target];
      mine.in = &in;
      continue;
    }
    path = target;
    append = r.op == ">>";
    mine.out = &out;
  }
  const Flow flow = words == nullptr ? sequence(n, mine) : words->empty() ? done(0) : command(*words, mine);
  if (!path.empty() && !write(path, out, append, io)) return Flow::kUnknown;
  return flow;
}

// As `set -x` writes it.
void ShellRun::trace(const std::vector<std::string>& words, const Io& io) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^[]!";
  std::string text = "+";
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_not_of(kPlain) == npos;
    text += plain ? " " + word : " '" + word + "'";
  }
  complain(text + "\n", io);
}

Flow ShellRun::command(const std::vector<std::string>& words, const Io& io) {
  if (words.empty()) return done(0);
  const auto function = functions_.find(words[0]);
  if (function != functions_.end()) {
    if (depth_ >= shell::kMaxDepth) return Flow::kUnknown;
    return call(function->second, {words.begin() + 1, words.end()}, io);
  }
  bool known = true;
  const Flow flow = builtin(words, io, &known);
  return known ? flow : utility(words, io);
}

// A function has parameters and local variables of its own.
Flow ShellRun::call(const shell::Tree& body, std::vector<std::string> parameters, const Io& io) {
  const shell::Tree kept = body;  // it may define itself anew
  std::vector<std::string> outer = std::exchange(parameters_, std::move(parameters));
  locals_.emplace_back();
  ++depth_;
  const Flow flow = node(*kept, io);
  --depth_;
  for (auto& [name, outer_value] : locals_.back()) {
    unset_variable(name);
    if (outer_value.value) set_variable(name, std::move(*outer_value.value));
    if (!outer_value.unset) unset_.erase(name);
  }
  locals_.pop_back();
  parameters_ = std::move(outer);
  return flow == Flow::kReturn ? Flow::kNext : flow;
}

// ---- files

std::optional<bool> ShellRun::file_is_there(const std::string& path) const {
  if (files_.count(path) != 0) return true;
  for (const std::string& mount : line_.mounts) {
    if (path == mount || under(path, mount)) return std::nullopt;
  }
  const auto below = [&](std::string_view folder) { return under(path, folder); };
  if (below("/tmp") || below("/var/tmp") || std::any_of(line_.volumes.begin(), line_.volumes.end(), below))
    return false;
  return std::nullopt;
}

void ShellRun::change(const std::string& path, bool there) {
  if (changes_.size() < CommandModel::kMaxChanges) {
    changes_.push_back({elapsed_, path, there, there ? files_[path] : std::string()});
  } else {
    changes_lost_ = true;
  }
}

bool ShellRun::write(const std::string& path, std::string_view text, bool append, const Io& io) {
  if (path == "/dev/null") return true;
  if (path == "/dev/stdout") return write_out(text, io);
  if (path == "/dev/stderr") return complain(text, io);
  if (path == "/proc/1/fd/1" || path == "/proc/1/fd/2") {
    log(text, path.back() == '2');
    return true;
  }
  if (path.empty() || path[0] != '/') return false;
  const bool there = files_.count(path) != 0;
  // A file that is not known to be absent may hold anything.
  if (append && !there && path != line_.message_path && file_is_there(path) != false) return false;
  if (!there && files_.size() >= CommandModel::kMaxFiles) return false;
  std::string& file = files_[path];
  if (!there || append || file != text) ++state_changes_;
  if (!append) file.clear();
  file.append(text.substr(0, CommandModel::kMaxText - std::min(file.size(), CommandModel::kMaxText)));
  change(path, true);
  return true;
}

bool ShellRun::write_out(std::string_view text, const Io& io) {
  if (io.out == nullptr) {
    log(text, io.out_is_err);
    return true;
  }
  // What a script reads must be whole.
  if (io.out->size() + text.size() > CommandModel::kMaxText) return false;
  io.out->append(text);
  return true;
}

// What a command says on standard error.
bool ShellRun::complain(std::string_view text, const Io& io) {
  if (io.err == Err::kOut) return write_out(text, io);
  if (io.err == Err::kLog) log(text, true);
  return true;
}

// Of a log only the end counts for a termination message.
void ShellRun::log(std::string_view text, bool err) {
  if (tape_ != nullptr) tape_->write(elapsed_, err, text);
  output_.append(text);
  if (output_.size() > CommandModel::kMaxText) output_.erase(0, output_.size() - CommandModel::kMaxText);
}

bool ShellRun::is_busybox() const {
  const auto in_name = [&](std::string_view part) { return line_.image.find(part) != npos; };
  return in_name("busybox") || in_name("alpine") || in_name("agnhost");
}

void ShellRun::set_variable(const std::string& name, std::string value) {
  const auto [at, fresh] = variables_.try_emplace(name);
  if (fresh || at->second != value) ++state_changes_;
  at->second = std::move(value);
  unset_.erase(name);
}

void ShellRun::unset_variable(const std::string& name) {
  if (variables_.erase(name) + (unset_.insert(name).second ? 1 : 0) > 0) ++state_changes_;
}

// ---- expansion

bool ShellRun::expand(const std::string& word, std::vector<std::string>* out) {
  std::string text;
  bool had_quotes = false;
  if (!expand_text(word, false, true, &text, &had_quotes)) return false;
  const size_t before = out->size();
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view field = rest.substr(0, rest.find(kFieldEnd));
    rest.remove_prefix(std::min(field.size() + 1, rest.size()));
    if (!field.empty()) out->emplace_back(field);
  }
  if (had_quotes && out->size() == before) out->emplace_back();
  return true;
}

bool ShellRun::expand_one(std::string_view word, std::string* out) {
  bool had_quotes = false;
  return expand_text(word, false, false, out, &had_quotes);
}

namespace {

// An unquoted value ends a field at each blank.
std::string in_fields(std::string_view value) {
  std::string out = squeezed_marks(value);
  for (char& c : out) {
    if (c == ' ' || c == '\t' || c == '\n') c = kFieldEnd;
  }
  return out;
}

}  // namespace

bool ShellRun::expand_text(std::string_view text, bool quoted, bool split, std::string* out, bool* had_quotes) {
  for (size_t i = 0; i < text.size();) {
    if (out->size() > kMaxWord) return false;
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      if (quoted && std::string_view("$`\"\\").find(text[i + 1]) == npos) *out += c;
      *out += text[i + 1];
      i += 2;
    } else if (c == '$' || c == '`') {
      size_t used = 0;
      std::string value;
      const bool known =
          c == '$' ? expand_dollar(text.substr(i), &value, &used) : expand_backquotes(text.substr(i), &value, &used);
      if (!known) return false;
      // "$@" is a field for each parameter, also between quotes.
      if (split && quoted && text.substr(i).starts_with("$@")) {
        value.clear();
        for (const std::string& p : parameters_) value += (value.empty() ? "" : std::string(1, kFieldEnd)) + p;
      }
      *out += split && !quoted ? in_fields(value) : value;
      i += used;
    } else if (!quoted && (c == '\'' || c == '"')) {
      const size_t end = shell::end_of_piece(text, i);
      if (end == npos) return false;
      const std::string_view inside = text.substr(i + 1, end - i - 2);
      *had_quotes = true;
      if (c == '\'') {
        *out += inside;
      } else if (!expand_text(inside, true, split, out, had_quotes)) {
        return false;
      }
      i = end;
    } else if (!quoted && (c == '*' || c == '?' || (c == '~' && i == 0))) {
      return false;
    } else {
      *out += c;
      ++i;
    }
  }
  return true;
}

// `text` begins with `; the script in it may hold no escapes.
bool ShellRun::expand_backquotes(std::string_view text, std::string* out, size_t* used) {
  const size_t end = text.find('`', 1);
  if (end == npos || text.substr(0, end).find('\\') != npos) return false;
  *used = end + 1;
  return substitute(text.substr(1, end - 1), out);
}

// `text` begins with $; `used` is how much of it was meant.
bool ShellRun::expand_dollar(std::string_view text, std::string* out, size_t* used) {
  const size_t end = shell::end_of_piece(text, 0);
  if (end == npos) return false;
  *used = end;
  if (text.starts_with("$((")) {
    return text.substr(0, end).ends_with("))") && arithmetic(text.substr(3, end - 5), out);
  }
  if (text.starts_with("$(")) return substitute(text.substr(2, end - 3), out);
  if (text.starts_with("${")) return braces(text.substr(2, end - 3), out);
  if (Known known = Known::kNo; text.size() > 1 && parameter(text.substr(1, 1), out, &known)) {
    *used = 2;
    return known != Known::kNo;
  }
  size_t stop = 1;
  while (stop < text.size() && is_name(text.substr(1, stop))) ++stop;
  if (stop > 1) {
    *used = stop;
    return variable(text.substr(1, stop - 1), out);
  }
  // "$" at the end of a word is itself; $$, $! and their like are not known.
  *used = 1;
  *out += '$';
  return text.size() == 1 || text[1] == ' ' || text[1] == '"' || text[1] == '/';
}

// What stands between quotes is plain, what is not may have * and its like.
bool ShellRun::expand_pattern(std::string_view word, std::string* out) {
  const auto pieces = shell::pieces_of(word);
  if (!pieces) return false;
  for (const shell::Piece& piece : *pieces) {
    if (piece.kind == shell::Piece::Kind::kPlain) {
      *out += piece.text;
      continue;
    }
    std::string text;
    if (!expand_one(piece.text, &text)) return false;
    *out += piece.kind == shell::Piece::Kind::kQuoted ? shell::plain_pattern(text) : text;
  }
  return true;
}

bool ShellRun::braces(std::string_view inside, std::string* out) {
  if (depth_ >= shell::kMaxDepth) return false;
  ++depth_;
  const bool known = braces_value(inside, out);
  --depth_;
  return known;
}

bool ShellRun::braces_value(std::string_view inside, std::string* out) {
  const auto p = shell::read_parameter(inside);
  if (!p) return false;
  std::string value;
  const Known known = look_up(p->name, &value);
  if (known == Known::kNo) return false;
  const bool none = known != Known::kYes || (p->or_empty && value.empty());
  if (p->op == 0 || p->op == '#' || p->op == '%') {
    if (known == Known::kAbsent) return false;
    if (p->length) {
      *out += std::to_string(value.size());
      return !has_mark(value);
    }
    if (p->op == 0) {
      *out += value;
      return true;
    }
    std::string pattern;
    if (has_mark(value) || !expand_pattern(p->word, &pattern)) return false;
    const auto rest = shell::stripped(value, pattern, p->op, p->longest);
    if (rest) *out += *rest;
    return rest.has_value();
  }
  if (none) return braces_without_value(*p, out);
  if (p->op == '+') return expand_one(p->word, out);
  *out += value;
  return true;
}

bool ShellRun::braces_without_value(const shell::Parameter& p, std::string* out) {
  if (p.op == '+') return true;
  if (p.op == '?') return false;  // the shell ends with a message of its own
  std::string value;
  if (!expand_one(p.word, &value)) return false;
  if (p.op == '=') {
    if (!is_name(p.name)) return false;
    set_variable(std::string(p.name), value);
  }
  *out += value;
  return true;
}

// $?, $#, $1, $@: false when the name is none of these.
bool ShellRun::parameter(std::string_view name, std::string* out, Known* known) const {
  if (name.empty()) return false;
  *known = Known::kYes;
  if (name == "?") {
    *out += std::to_string(status_);
  } else if (name == "#") {
    *out += std::to_string(parameters_.size());
  } else if (name == "@" || name == "*") {
    *known = parameters_.empty() ? Known::kUnset : Known::kYes;
    for (size_t i = 0; i < parameters_.size(); ++i) *out += (i == 0 ? "" : " ") + parameters_[i];
  } else if (name.size() == 1 && name[0] >= '0' && name[0] <= '9') {
    const auto index = static_cast<size_t>(name[0] - '0');
    *known = index == 0 ? Known::kNo : index <= parameters_.size() ? Known::kYes : Known::kUnset;
    if (*known == Known::kYes) *out += parameters_[index - 1];
  } else {
    return false;
  }
  return true;
}

namespace {

// What a shell, a runtime or a kubelet sets by itself, or may.
bool may_be_set(std::string_view name) {
  constexpr std::string_view kNames[] = {"PATH",  "HOME",    "PWD",          "OLDPWD", "IFS", "PPID", "SHLVL",
                                         "TERM",  "LINENO",  "RANDOM",       "OPTIND", "UID", "EUID", "USER",
                                         "SHELL", "SECONDS", "EPOCHSECONDS", "PS1",    "PS2", "PS4",  "LOGNAME"};
  const bool service = name.find("_SERVICE_") != npos || name.find("_PORT") != npos;
  return service || std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace

ShellRun::Known ShellRun::look_up(std::string_view name, std::string* out) const {
  if (Known known = Known::kNo; parameter(name, out, &known)) return known;
  if (!is_name(name)) return Known::kNo;
  const std::string key(name);
  if (const auto own = variables_.find(key); own != variables_.end()) {
    *out += own->second;
    return Known::kYes;
  }
  if (unset_.contains(name)) return Known::kUnset;
  const auto given = line_.env.find(key);
  if (given == line_.env.end() && key == "HOSTNAME") {
    *out += host_mark();  // a runtime sets it
    return Known::kYes;
  }
  // Plain images set nothing of their own; others may.
  if (given == line_.env.end()) return is_busybox() && !may_be_set(name) ? Known::kAbsent : Known::kNo;
  if (!given->second) return Known::kNo;
  *out += *given->second;
  return Known::kYes;
}

bool ShellRun::variable(std::string_view name, std::string* out) const {
  const Known known = look_up(name, out);
  return known == Known::kYes || known == Known::kUnset;
}

bool ShellRun::arithmetic(std::string_view text, std::string* out) {
  std::string expression, error;
  bool had_quotes = false, known = true;
  if (!expand_text(text, true, false, &expression, &had_quotes) || has_mark(expression)) return false;
  const auto value = shell::evaluate(
      expression,
      [&](std::string_view name) {
        std::string of_name;
        known &= variable(name, &of_name) && !has_mark(of_name);
        return of_name;
      },
      &error);
  if (!value || !known) return false;
  *out += std::to_string(*value);
  return true;
}

// $(script)
bool ShellRun::substitute(std::string_view script, std::string* out) {
  if (++depth_ > shell::kMaxDepth) return false;
  const shell::Tree tree = shell::parse(script);
  if (tree == nullptr) return false;
  std::string text;
  const Flow flow = subshell(*tree, {.out = &text});
  --depth_;
  if (flow != Flow::kNext) return false;
  strip_newlines(&text);
  *out += text;
  return true;
}

}  // namespace ghostfleet::agent
