// to_yaml(): as kubectl and the API server print it: keys sorted, two spaces, lists not indented below their key, and
// texts folded at the first single space beyond column 80.
#include <algorithm>
#include <cctype>
#include <vector>

#include "kube/api/codec.h"
#include "kube/api/json_number.h"
#include "kube/api/yaml_scalar.h"

namespace ghostfleet::kube {

namespace {

std::string_view sv(boost::json::string_view s) { return {s.data(), s.size()}; }

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Keys in go-yaml's order: runs of digits by their number, letters behind everything else.
bool key_before(std::string_view a, std::string_view b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i]) continue;
    const bool la = letter(a[i]);
    const bool lb = letter(b[i]);
    if (la && lb) return a[i] < b[i];
    if (la || lb) return lb;
    if (!digit(a[i]) || !digit(b[i])) return a[i] < b[i];
    size_t ea = i;
    size_t eb = i;
    while (ea < a.size() && digit(a[ea])) ++ea;
    while (eb < b.size() && digit(b[eb])) ++eb;
    if (ea - i != eb - i) return ea < eb;
    return a[i] < b[i];
  }
  return a.size() < b.size();
}

constexpr size_t kFoldColumn = 80;

bool space_at(std::string_view s, size_t i) { return i < s.size() && s[i] == ' '; }

class Writer {
 public:
  std::string out;

  void node(const Json& v, int indent) {
    if (v.is_object() && !v.get_object().empty()) {
      mapping(v.get_object(), indent, false);
    } else if (v.is_array() && !v.get_array().empty()) {
      sequence(v.get_array(), indent);
    } else {
      scalar(v, indent);
      out += '\n';
    }
  }

 private:
  void pad(int indent) { out.append(static_cast<size_t>(indent), ' '); }

  // `inline_first`: the first key stands behind a "- " that is written already.
  void mapping(const JsonObject& map, int indent, bool inline_first) {
    std::vector<const boost::json::key_value_pair*> members;
    for (const auto& m : map) members.push_back(&m);
    std::sort(members.begin(), members.end(),
              [](const auto* a, const auto* b) { return key_before(sv(a->key()), sv(b->key())); });
    for (const auto* m : members) {
      if (!inline_first) pad(indent);
      inline_first = false;
      string(sv(m->key()), indent, true);
      out += ':';
      value_after_key(m->value(), indent);
    }
  }

  void value_after_key(const Json& v, int indent) {
    if (v.is_object() && !v.get_object().empty()) {
      out += '\n';
      mapping(v.get_object(), indent + 2, false);
    } else if (v.is_array() && !v.get_array().empty()) {
      out += '\n';
      sequence(v.get_array(), indent);
    } else {
      out += ' ';
      scalar(v, indent + 2);
      out += '\n';
    }
  }

  void sequence(const JsonArray& list, int indent) {
    for (const Json& item : list) {
      pad(indent);
      element(item, indent);
    }
  }

  void element(const Json& item, int indent) {
    out += "- ";
    if (item.is_object() && !item.get_object().empty()) {
      mapping(item.get_object(), indent + 2, true);
    } else if (item.is_array() && !item.get_array().empty()) {
      const JsonArray& inner = item.get_array();
      element(inner[0], indent + 2);
      for (size_t i = 1; i < inner.size(); ++i) {
        pad(indent + 2);
        element(inner[i], indent + 2);
      }
    } else {
      scalar(item, indent + 2);
      out += '\n';
    }
  }

  void scalar(const Json& v, int indent) {
    if (v.is_string()) return string(sv(v.get_string()), indent, false);
    if (v.is_double()) return number(v.get_double());
    append_json(v, &out);  // null, bool, whole numbers, {} and []
  }

  void number(double d) {
    std::string text;
    append_double(d, &text);
    out += text;
  }

  void string(std::string_view s, int indent, bool key) {
    if (!key && literal_block(s)) return block(s, std::max(indent, 2));
    fold_ = key ? -1 : indent;
    column_ = column();
    if (!needs_quotes(s)) return plain(s);
    // Words that would be read as something else go into double quotes; texts that only need an escape from YAML's
    // marks into single ones.
    Json meaning;
    const bool other_type =
        s.empty() || !resolve_plain_scalar(s, &meaning) || !meaning.is_string() || timestamp_like(s);
    const bool control = s.find('\n') != s.npos || !all_printable(s);
    if (other_type || control) {
      double_quoted(s);
    } else {
      single_quoted(s);
    }
  }

  static bool timestamp_like(std::string_view s) { return s.size() >= 8 && digit(s[0]) && digit(s[3]) && s[4] == '-'; }

  static bool literal_block(std::string_view s) {
    if (s.find('\n') == std::string_view::npos || s.front() == ' ' || s.front() == '\n' || s.front() == '\t') {
      return false;
    }
    return all_printable(s);
  }

  void block(std::string_view s, int indent) {
    out += '|';
    if (s.back() != '\n') {
      out += '-';
    } else if (s.size() > 1 && s[s.size() - 2] == '\n') {
      out += '+';
    }
    while (!s.empty()) {
      const size_t end = s.find('\n');
      const std::string_view line = s.substr(0, end);
      out += '\n';
      if (!line.empty()) {
        pad(indent);
        out += line;
      }
      s = end == std::string_view::npos ? std::string_view() : s.substr(end + 1);
    }
  }

  // Characters since the last line break.
  size_t column() const {
    const size_t line = out.rfind('\n') + 1;  // npos + 1 is 0
    return characters(std::string_view(out).substr(line));
  }

  static size_t characters(std::string_view s) {
    return static_cast<size_t>(
        std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  }

  // Texts that hold no line break: what is written counts for the column.
  void put(std::string_view s) {
    out += s;
    column_ += characters(s);
  }

  bool may_fold(std::string_view s, size_t i) const {
    return fold_ >= 0 && column_ > kFoldColumn && s[i] == ' ' && (i == 0 || s[i - 1] != ' ');
  }

  void fold() {
    out += '\n';
    pad(fold_);
    column_ = static_cast<size_t>(fold_);
  }

  void plain(std::string_view s) {
    for (size_t i = 0; i < s.size(); ++i) {
      if (may_fold(s, i) && !space_at(s, i + 1)) {
        fold();
      } else {
        put(s.substr(i, 1));
      }
    }
  }

  void single_quoted(std::string_view s) {
    put("'");
    for (size_t i = 0; i < s.size(); ++i) {
      if (i > 0 && i + 1 < s.size() && may_fold(s, i) && !space_at(s, i + 1)) {
        fold();
        continue;
      }
      put(s.substr(i, 1));
      if (s[i] == '\'') put("'");
    }
    put("'");
  }

  void double_quoted(std::string_view s) {
    put("\"");
    const char* end = s.data() + s.size();
    for (const char* p = s.data(); p < end;) {
      const size_t i = static_cast<size_t>(p - s.data());
      if (i > 0 && i + 1 < s.size() && may_fold(s, i)) {
        fold();
        if (space_at(s, i + 1)) put("\\");  // else the line's indentation would swallow it
        ++p;
        continue;
      }
      const char* from = p;
      const unsigned cp = next_code_point(&p, end);
      if (cp == '"' || cp == '\\') {
        put("\\");
        put(std::string_view(from, 1));
      } else if (cp == '\n') {
        put("\\n");
      } else if (cp == '\t') {
        put("\\t");
      } else if (cp == '\r') {
        put("\\r");
      } else if (is_printable(cp)) {
        put(std::string_view(from, static_cast<size_t>(p - from)));
      } else {
        escape(cp);
      }
    }
    put("\"");
  }

  void escape(unsigned cp) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    put(cp < 0x100 ? "\\x" : "\\u");
    for (int shift = cp < 0x100 ? 4 : 12; shift >= 0; shift -= 4) put({&kHex[cp >> shift & 15], 1});
  }

  // Of the text being written: the indentation of its further lines (-1: it must stay on one), and where it stands.
  int fold_ = -1;
  size_t column_ = 0;
};

}  // namespace

std::string to_yaml(const Json& value) {
  Writer writer;
  writer.node(value, 0);
  return writer.out;
}

}  // namespace ghostfleet::kube
