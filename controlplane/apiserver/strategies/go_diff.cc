#include "controlplane/apiserver/strategies/go_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "controlplane/apiserver/strategies/go_fields.h"
#include "controlplane/apiserver/strategies/validation.h"

namespace ghostfleet::controlplane {

using kube::Json;
using kube::JsonArray;
using kube::JsonObject;

namespace {

struct GoField {
  std::string name, json_name, kind;
};
using GoTypes = std::map<std::string, std::vector<GoField>, std::less<>>;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    size_t end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

GoField parse_field(std::string_view word) {
  std::vector<std::string_view> parts = split(word, ':');
  GoField field{std::string(parts[0]), std::string(parts[1]), std::string(parts[2])};
  if (field.json_name.empty()) {
    field.json_name = field.name;
    field.json_name[0] = static_cast<char>(field.json_name[0] - 'A' + 'a');
  }
  return field;
}

GoTypes parse_types() {
  GoTypes types;
  std::vector<GoField>* current = nullptr;
  for (std::string_view line : split(kGoFields, '\n')) {
    if (line.empty()) continue;
    bool first = line[0] != ' ';
    for (std::string_view word : split(line, ' ')) {
      if (word.empty()) continue;
      if (first) {
        current = &types[std::string(word)];
        first = false;
      } else {
        current->push_back(parse_field(word));
      }
    }
  }
  return types;
}

const GoTypes& go_types() {
  static const GoTypes types = parse_types();
  return types;
}

// Writes JSON with the internal names; `indent` is -1 for one line.
class Dumper {
 public:
  explicit Dumper(bool pretty) : pretty_(pretty) {}

  void write_struct(std::string_view type, const Json& value, int depth);
  std::string take() { return std::move(out_); }

 private:
  void write(std::string_view kind, const Json* value, int depth);
  void write_list(std::string_view kind, const Json& value, int depth);
  void write_map(std::string_view kind, const Json& value, int depth);
  void write_zero(std::string_view kind, int depth);
  void write_plain(const Json& value, int depth);
  void line(int depth) {
    if (!pretty_) return;
    out_.push_back('\n');
    out_.append(static_cast<size_t>(depth), ' ');
  }
  void key(std::string_view name, bool* first, int depth) {
    if (!*first) out_.push_back(',');
    *first = false;
    line(depth);
    kube::append_json_string(name, &out_);
    out_ += pretty_ ? ": " : ":";
  }

  bool pretty_;
  std::string out_;
};

void Dumper::write_struct(std::string_view type, const Json& value, int depth) {
  auto it = go_types().find(type);
  if (it == go_types().end()) {
    write_plain(value, depth);
    return;
  }
  out_.push_back('{');
  bool first = true;
  for (const GoField& field : it->second) {
    const Json* found = member(value, field.json_name);
    if (field.kind == "M") {
      // Metadata is embedded: its members stand among the others.
      const JsonObject* meta = found != nullptr && found->is_object() ? &found->get_object() : nullptr;
      for (auto m = meta == nullptr ? nullptr : meta->begin(); meta != nullptr && m != meta->end(); ++m) {
        key(m->key(), &first, depth + 1);
        write_plain(m->value(), depth + 1);
      }
      continue;
    }
    key(field.name, &first, depth + 1);
    write(field.kind, found, depth + 1);
  }
  if (!first) line(depth);
  out_.push_back('}');
}

void Dumper::write_zero(std::string_view kind, int depth) {
  switch (kind[0]) {
    case 's': out_ += "\"\""; break;
    case 'i':
    case 'x': out_ += "0"; break;
    case 'q': out_ += "\"0\""; break;
    case 'b': out_ += "false"; break;
    case 'S': write_struct(kind.substr(1), JsonObject(), depth); break;
    default: out_ += "null";
  }
}

void Dumper::write(std::string_view kind, const Json* value, int depth) {
  if (value == nullptr) {
    write_zero(kind, depth);
    return;
  }
  switch (kind[0]) {
    case '*': write(kind.substr(1), value, depth); break;
    case '[': write_list(kind.substr(1), *value, depth); break;
    case '{': write_map(kind.substr(1), *value, depth); break;
    case 'S': write_struct(kind.substr(1), *value, depth); break;
    default: write_plain(*value, depth);
  }
}

void Dumper::write_list(std::string_view kind, const Json& value, int depth) {
  if (!value.is_array() || value.get_array().empty()) {
    out_ += value.is_array() ? "[]" : "null";
    return;
  }
  out_.push_back('[');
  bool first = true;
  for (const Json& item : value.get_array()) {
    if (!first) out_.push_back(',');
    first = false;
    line(depth + 1);
    write(kind, &item, depth + 1);
  }
  line(depth);
  out_.push_back(']');
}

void Dumper::write_map(std::string_view kind, const Json& value, int depth) {
  if (!value.is_object()) {
    out_ += "null";
    return;
  }
  std::vector<std::string_view> keys;
  for (const auto& entry : value.get_object()) keys.push_back(entry.key());
  std::sort(keys.begin(), keys.end());
  out_.push_back('{');
  bool first = true;
  for (std::string_view k : keys) {
    key(k, &first, depth + 1);
    write(kind, member(value, k), depth + 1);
  }
  if (!first) line(depth);
  out_.push_back('}');
}

void Dumper::write_plain(const Json& value, int depth) {
  if (value.is_object()) {
    out_.push_back('{');
    bool first = true;
    for (const auto& entry : value.get_object()) {
      key(entry.key(), &first, depth + 1);
      write_plain(entry.value(), depth + 1);
    }
    if (!first) line(depth);
    out_.push_back('}');
  } else if (value.is_array()) {
    out_.push_back('[');
    bool first = true;
    for (const Json& item : value.get_array()) {
      if (!first) out_.push_back(',');
      first = false;
      line(depth + 1);
      write_plain(item, depth + 1);
    }
    if (!first) line(depth);
    out_.push_back(']');
  } else {
    kube::append_json(value, &out_);
  }
}

// The internal form keeps the host's namespaces in the security context and has no copy of the service account.
Json internal_pod_spec(const Json& spec) {
  Json copy = spec;
  if (!copy.is_object()) copy = JsonObject();
  JsonObject& root = copy.get_object();
  for (std::string_view key : {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"}) {
    const Json* value = member(spec, key);
    Json* context = member(copy, "securityContext");
    if (value == nullptr) continue;
    if (context == nullptr || !context->is_object()) {
      root["securityContext"] = JsonObject();
      context = &root["securityContext"];
    }
    context->get_object()[key] = *value;
  }
  return copy;
}

std::string dump(std::string_view type, const Json& value, bool pretty) {
  size_t dot = type.rfind('.');
  std::string_view name = dot == std::string_view::npos ? type : type.substr(dot + 1);
  Dumper dumper(pretty);
  if (name == "PodSpec") {
    dumper.write_struct(name, internal_pod_spec(value), 0);
  } else if (name == "PodTemplateSpec") {
    Json copy = value;
    if (const Json* spec = member(value, "spec")) copy.get_object()["spec"] = internal_pod_spec(*spec);
    dumper.write_struct(name, copy, 0);
  } else {
    dumper.write_struct(name, value, 0);
  }
  return dumper.take();
}

// ---- unified diff -------------------------------------------------------------------------------------------------

struct Edit {
  char kind;  // ' ', '-', '+'
  size_t a, b;
};

using Lines = std::vector<std::string_view>;

struct Block {
  size_t a, b, size;
};

// The longest run of equal lines within the bounds; of several the first in `a`, then in `b`.
Block longest_match(const Lines& a, const Lines& b, const Block& low, const Block& high) {
  Block best{low.a, low.b, 0};
  std::vector<size_t> lengths(high.b - low.b + 1, 0);
  for (size_t i = low.a; i < high.a; ++i) {
    size_t before = 0;  // the length that ended one line up and left
    for (size_t k = low.b; k < high.b; ++k) {
      size_t above = lengths[k - low.b + 1];
      size_t length = a[i] == b[k] ? before + 1 : 0;
      lengths[k - low.b + 1] = length;
      before = above;
      if (length > best.size) best = {i + 1 - length, k + 1 - length, length};
    }
  }
  return best;
}

// Longest run first, then what is before and after it: the method of Ratcliff and Obershelp, which the real server's
// diff uses too. Ranges wait on a stack.
std::vector<Block> matching_blocks(const Lines& a, const Lines& b) {
  std::vector<Block> blocks;
  std::vector<std::pair<Block, Block>> ranges{{{0, 0, 0}, {a.size(), b.size(), 0}}};
  while (!ranges.empty()) {
    auto [low, high] = ranges.back();
    ranges.pop_back();
    if (low.a >= high.a || low.b >= high.b) continue;
    Block match = longest_match(a, b, low, high);
    if (match.size == 0) continue;
    blocks.push_back(match);
    ranges.push_back({low, {match.a, match.b, 0}});
    ranges.push_back({{match.a + match.size, match.b + match.size, 0}, high});
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& x, const Block& y) { return x.a < y.a; });
  return blocks;
}

std::vector<Edit> edits_of(const Lines& a, const Lines& b) {
  std::vector<Block> blocks = matching_blocks(a, b);
  blocks.push_back({a.size(), b.size(), 0});
  std::vector<Edit> edits;
  size_t i = 0;
  size_t k = 0;
  for (const Block& block : blocks) {
    while (i < block.a) edits.push_back({'-', i++, k});
    while (k < block.b) edits.push_back({'+', i, k++});
    for (size_t n = 0; n < block.size; ++n) edits.push_back({' ', i++, k++});
  }
  return edits;
}

std::string range_text(size_t start, size_t count) {
  if (count == 1) return std::to_string(start + 1);
  return fmt::format("{},{}", count == 0 ? start : start + 1, count);
}

void write_hunk(const std::vector<Edit>& edits, size_t first, size_t last, const Lines& a, const Lines& b,
                std::string* out) {
  size_t count_a = 0;
  size_t count_b = 0;
  for (size_t i = first; i < last; ++i) {
    count_a += edits[i].kind != '+';
    count_b += edits[i].kind != '-';
  }
  *out += fmt::format("@@ -{} +{} @@\n", range_text(edits[first].a, count_a), range_text(edits[first].b, count_b));
  for (size_t i = first; i < last; ++i) {
    std::string_view text = edits[i].kind == '+' ? b[edits[i].b] : a[edits[i].a];
    *out += fmt::format("{}{}\n", edits[i].kind, text);
  }
}

}  // namespace

std::string unified_diff(std::string_view before, std::string_view after) {
  constexpr size_t kContext = 3;
  constexpr size_t kMaxLines = 5000;
  Lines a = split(before, '\n');
  Lines b = split(after, '\n');
  if (a.size() > kMaxLines || b.size() > kMaxLines) return {};
  std::vector<Edit> edits = edits_of(a, b);
  std::string out;
  size_t i = 0;
  while (i < edits.size()) {
    while (i < edits.size() && edits[i].kind == ' ') ++i;
    if (i == edits.size()) break;
    size_t first = i < kContext ? 0 : i - kContext;
    size_t last = i;  // one past the last change of this hunk
    for (size_t k = i; k < edits.size() && k <= last + 2 * kContext; ++k) {
      if (edits[k].kind != ' ') last = k + 1;
    }
    size_t stop = std::min(edits.size(), last + kContext);
    write_hunk(edits, first, stop, a, b, &out);
    i = stop;
  }
  return out;
}

std::string go_dump(std::string_view type, const Json& value) { return dump(type, value, true); }
std::string go_text(std::string_view type, const Json& value) { return dump(type, value, false); }

std::string go_diff(std::string_view type, const Json& before, const Json& after) {
  return unified_diff(go_dump(type, before), go_dump(type, after));
}

}  // namespace ghostfleet::controlplane
