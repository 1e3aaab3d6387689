// YAML to Json: libyaml's events, resolved as go-yaml v2 resolves them.
#include <fmt/format.h>
#include <yaml.h>

#include <map>

#include "base/digest.h"
#include "base/text.h"
#include "kube/api/codec.h"
#include "kube/api/json_number.h"
#include "kube/api/json_scanner.h"
#include "kube/api/typed_reader.h"
#include "kube/api/yaml_scalar.h"

namespace ghostfleet::kube {

namespace {

// What aliases may make of a document: a few lines must not become gigabytes.
constexpr size_t kMaxExpandedNodes = 1'000'000;
constexpr size_t kMaxExpandedBytes = 64U << 20;
// The reader recurses; nothing that people write nests anywhere near this.
constexpr int kMaxYamlDepth = 500;

struct Event {
  yaml_event_t raw;
  bool live = false;
  ~Event() { clear(); }
  void clear() {
    if (live) yaml_event_delete(&raw);
    live = false;
  }
};

class Reader {
 public:
  explicit Reader(std::string_view text) {
    yaml_parser_initialize(&parser_);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~Reader() { yaml_parser_delete(&parser_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  std::vector<std::string>* duplicates = nullptr;
  YamlLines* lines = nullptr;
  bool as_go_counts = false;  // lines in errors

  // One document; *found is false when there is none any more.
  bool read_document(Json* out, bool* found) {
    *found = false;
    for (;;) {
      if (!next()) return false;
      if (event_.raw.type == YAML_STREAM_END_EVENT) return true;
      if (event_.raw.type == YAML_DOCUMENT_START_EVENT) break;
    }
    *found = true;
    anchors_.clear();
    if (!next() || !read_node(out, 0)) return false;
    return next();  // the end of the document
  }

  const std::string& error() const { return error_; }

 private:
  bool fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
    return false;
  }

  bool next() {
    event_.clear();
    if (yaml_parser_parse(&parser_, &event_.raw) == 0) return fail_parser();
    event_.live = true;
    return true;
  }

  bool fail_parser() {
    // libyaml counts lines from 0. go-yaml corrects that only for errors of the scanner; answers of a server say what
    // it says, while a user is told the line of the file.
    const size_t mark = parser_.context_mark.line != 0 ? parser_.context_mark.line : parser_.problem_mark.line;
    const bool correct = !as_go_counts || (mark != 0 && parser_.error == YAML_SCANNER_ERROR);
    const size_t line = correct ? mark + 1 : mark;
    const std::string where = line != 0 ? fmt::format("line {}: ", line) : "";
    return fail("yaml: " + where +
                (parser_.problem != nullptr ? parser_.problem : "unknown problem parsing YAML content"));
  }

  int line() const { return static_cast<int>(event_.raw.start_mark.line) + 1; }

  // The node whose first event is at hand.
  bool read_node(Json* out, int depth) {
    if (depth > kMaxYamlDepth) return fail("yaml: exceeded max depth");
    if (++nodes_ > kMaxExpandedNodes) return fail("yaml: document has too many values");
    std::string anchor;
    switch (event_.raw.type) {
      case YAML_ALIAS_EVENT: return read_alias(out);
      case YAML_SCALAR_EVENT:
        if (event_.raw.data.scalar.anchor != nullptr) anchor = text(event_.raw.data.scalar.anchor);
        if (!read_scalar(out)) return false;
        break;
      case YAML_SEQUENCE_START_EVENT:
        if (event_.raw.data.sequence_start.anchor != nullptr) anchor = text(event_.raw.data.sequence_start.anchor);
        if (!read_sequence(out, depth)) return false;
        break;
      case YAML_MAPPING_START_EVENT:
        if (event_.raw.data.mapping_start.anchor != nullptr) anchor = text(event_.raw.data.mapping_start.anchor);
        if (!read_mapping(out, depth)) return false;
        break;
      default: return fail("yaml: unexpected event");
    }
    if (!anchor.empty()) anchors_[anchor] = *out;
    return true;
  }

  static std::string text(const yaml_char_t* s) { return reinterpret_cast<const char*>(s); }

  static void weigh(const Json& v, size_t* nodes, size_t* bytes) {
    ++*nodes;
    if (v.is_string()) *bytes += v.get_string().size();
    if (v.is_array()) {
      for (const Json& item : v.get_array()) weigh(item, nodes, bytes);
    } else if (v.is_object()) {
      for (const auto& m : v.get_object()) {
        *bytes += m.key().size();
        weigh(m.value(), nodes, bytes);
      }
    }
  }

  bool read_alias(Json* out) {
    const std::string name = text(event_.raw.data.alias.anchor);
    const auto it = anchors_.find(name);
    if (it == anchors_.end()) return fail(fmt::format("yaml: unknown anchor '{}' referenced", name));
    weigh(it->second, &nodes_, &bytes_);
    if (nodes_ > kMaxExpandedNodes || bytes_ > kMaxExpandedBytes) {
      return fail("yaml: document contains excessive aliasing");
    }
    *out = it->second;
    return true;
  }

  bool read_scalar(Json* out) {
    const auto& s = event_.raw.data.scalar;
    const std::string_view value(reinterpret_cast<const char*>(s.value), s.length);
    const std::string_view tag = s.tag == nullptr ? "" : reinterpret_cast<const char*>(s.tag);
    if (tag == "tag:yaml.org,2002:binary") {
      std::string bytes;
      if (!base64_decode(value, &bytes)) return fail("yaml: !!binary value contains invalid base64 data");
      bytes = to_valid_utf8(bytes);
      out->emplace_string().assign(bytes.data(), bytes.size());
      return true;
    }
    const bool core = tag == "tag:yaml.org,2002:int" || tag == "tag:yaml.org,2002:float" ||
                      tag == "tag:yaml.org,2002:bool" || tag == "tag:yaml.org,2002:null";
    const bool plain = core || (s.style == YAML_PLAIN_SCALAR_STYLE && tag.empty());
    if (!plain) {
      out->emplace_string().assign(value.data(), value.size());
      return true;
    }
    if (resolve_plain_scalar(value, out)) {
      if (!core || !out->is_string()) return true;
      return fail(fmt::format("yaml: cannot decode !!str `{}` as a !!{}", value, tag.substr(tag.rfind(':') + 1)));
    }
    return fail(fmt::format("json: unsupported value: {}", value.find('n') == value.npos ? "NaN" : "+Inf"));
  }

  bool read_sequence(Json* out, int depth) {
    JsonArray list;
    const size_t mark = path_.size();
    for (;;) {
      if (!next()) return false;
      if (event_.raw.type == YAML_SEQUENCE_END_EVENT) break;
      if (lines != nullptr) {
        path_ += fmt::format("[{}]", list.size());
        lines->set(path_, line());
      }
      Json item;
      if (!read_node(&item, depth + 1)) return false;
      list.push_back(std::move(item));
      path_.resize(mark);
    }
    *out = std::move(list);
    return true;
  }

  // The key at hand as JSON knows it; numbers and booleans become texts.
  bool read_key(Json* raw, std::string* key, int depth) {
    if (!read_node(raw, depth + 1)) return false;
    if (raw->is_string()) {
      key->assign(raw->get_string().data(), raw->get_string().size());
    } else if (raw->is_bool()) {
      *key = raw->get_bool() ? "true" : "false";
    } else if (raw->is_number()) {
      *key = to_json(*raw);
    }
    return true;
  }

  bool read_mapping(Json* out, int depth) {
    JsonObject map;
    std::vector<Json> merges;
    const size_t mark = path_.size();
    for (;;) {
      if (!next()) return false;
      if (event_.raw.type == YAML_MAPPING_END_EVENT) break;
      const int at = line();
      const bool merge = is_merge_key();
      Json raw;
      std::string key;
      if (!read_key(&raw, &key, depth) || !next()) return false;
      if (!merge) note_key(map, raw, key, at);
      Json value;
      if (!read_node(&value, depth + 1)) return false;
      path_.resize(mark);
      if (raw.is_null() || raw.is_structured()) return fail_key(raw, value);
      if (merge) {
        merges.push_back(std::move(value));
      } else {
        map.insert_or_assign(key, std::move(value));
      }
    }
    for (const Json& m : merges) {
      if (!merge_into(m, &map)) return false;
    }
    *out = std::move(map);
    return true;
  }

  bool is_merge_key() const {
    if (event_.raw.type != YAML_SCALAR_EVENT) return false;
    const auto& s = event_.raw.data.scalar;
    return s.style == YAML_PLAIN_SCALAR_STYLE &&
           std::string_view(reinterpret_cast<const char*>(s.value), s.length) == "<<";
  }

  void note_key(const JsonObject& map, const Json& raw, const std::string& key, int at) {
    if (duplicates != nullptr && map.contains(key)) {
      const std::string shown = raw.is_string() ? go_quote(key) : key;
      duplicates->push_back(fmt::format("line {}: key {} already set in map", at, shown));
    }
    if (lines == nullptr) return;
    if (!path_.empty()) path_ += '.';
    path_ += key;
    lines->set(path_, at);
  }

  bool fail_key(const Json& raw, const Json& value) {
    if (raw.is_null()) {
      return fail(fmt::format("unsupported map key of type: %!s(<nil>), key: <nil>, value: {}", to_json(value)));
    }
    return fail("yaml: invalid map key: " + to_json(raw));
  }

  // "<<": what the map has itself wins, and what was merged first.
  bool merge_into(const Json& from, JsonObject* map) {
    if (from.is_array()) {
      for (const Json& item : from.get_array()) {
        if (!item.is_object() || !merge_into(item, map))
          return fail("yaml: map merge requires map or sequence of maps as the value");
      }
      return true;
    }
    if (!from.is_object()) return fail("yaml: map merge requires map or sequence of maps as the value");
    weigh(from, &nodes_, &bytes_);
    if (nodes_ > kMaxExpandedNodes || bytes_ > kMaxExpandedBytes)
      return fail("yaml: document contains excessive aliasing");
    for (const auto& m : from.get_object()) map->emplace(m.key(), m.value());
    return true;
  }

  yaml_parser_t parser_;
  Event event_;
  std::map<std::string, Json> anchors_;
  size_t nodes_ = 0;
  size_t bytes_ = 0;
  std::string path_;
  std::string error_;
};

Status yaml_error(const Reader& reader) { return Status(Code::kInvalidArgument, reader.error()); }

}  // namespace

Result<Json> parse_yaml(std::string_view text, std::vector<std::string>* duplicates) {
  const std::string valid = to_valid_utf8(text);
  Reader reader(valid);
  reader.duplicates = duplicates;
  reader.as_go_counts = true;
  Json out;
  bool found;
  if (!reader.read_document(&out, &found)) return yaml_error(reader);
  return out;
}

Result<std::vector<Json>> parse_yaml_documents(std::string_view text) {
  const std::string valid = to_valid_utf8(text);
  Reader reader(valid);
  std::vector<Json> documents;
  for (;;) {
    Json document;
    bool found;
    if (!reader.read_document(&document, &found)) return yaml_error(reader);
    if (!found) return documents;
    if (!document.is_null()) documents.push_back(std::move(document));
  }
}

Result<Json> parse_yaml_with_lines(std::string_view text, YamlLines* lines) {
  const std::string valid = to_valid_utf8(text);
  Reader reader(valid);
  reader.lines = lines;
  Json out;
  bool found;
  if (!reader.read_document(&out, &found)) return yaml_error(reader);
  return out;
}

void YamlLines::set(std::string path, int line) { lines_.insert_or_assign(std::move(path), line); }

int YamlLines::line_of(std::string_view path) const {
  const auto it = lines_.find(path);
  return it == lines_.end() ? 0 : it->second;
}

}  // namespace ghostfleet::kube
