// ObjectReader: strict reading of YAML that a person wrote. Every complaint names file, line, field, value and what
// would be right; all complaints of a file are collected, so that one run shows them all.
//
// Thread rule: one owner. Ownership: readers point into the document, which must outlive them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kube/api/codec.h"
#include "kube/api/json.h"

namespace ghostfleet::emulator {

// One parsed file with its lines and the complaints about it.
class Document {
 public:
  // `file` is only for messages. A key that is there twice and a second document are errors.
  static Result<Document> parse(std::string_view text, std::string file);

  const kube::Json& root() const { return root_; }
  void complain(std::string_view path, std::string_view value, std::string_view what);
  void complain_missing(std::string_view path);
  // The field is there after all, under a mistyped name that is complained about by itself.
  void take_back_missing(std::string_view path);
  // OK, or every complaint, one a line, in the order of the file.
  Status status() const;
  const std::string& file() const { return file_; }

 private:
  int line_of(std::string_view path) const;

  std::string file_;
  kube::Json root_;
  kube::YamlLines lines_;
  struct Complaint {
    int line = 0;  // 0: of the file as a whole
    std::string text;
    std::string missing = {};  // the path of a field that is not there
  };
  std::vector<Complaint> complaints_;
};

using StringPairs = std::vector<std::pair<std::string, std::string>>;

class ObjectReader {
 public:
  // `node` null: as an empty object (after `required` has complained).
  ObjectReader(Document* document, const kube::Json* node, std::string path);

  bool has(std::string_view key) const;
  // As it stands, for who reads it on; null when it is not there.
  const kube::Json* value(std::string_view key) { return take(key); }
  std::string text(std::string_view key, std::string_view fallback = "");
  std::string required_text(std::string_view key);
  // A whole number; also "10k" and "1m" (thousands and millions) where `suffixes`.
  int64_t integer(std::string_view key, int64_t low, int64_t high, int64_t fallback, bool suffixes = false);
  double number(std::string_view key, double low, double high, double fallback);
  bool boolean(std::string_view key, bool fallback);
  Duration duration(std::string_view key, Duration fallback);
  std::string one_of(std::string_view key, const std::vector<std::string>& allowed, std::string_view fallback);
  StringPairs text_map(std::string_view key);
  StringPairs quantity_map(std::string_view key);
  std::vector<std::string> text_list(std::string_view key);
  ObjectReader object(std::string_view key);
  std::vector<ObjectReader> list(std::string_view key);

  // Keys that are known though not read, because they are not there.
  void announce(const std::vector<std::string>& keys);
  // Complains about every key that nobody asked for, and suggests the nearest one that is known.
  void finish();
  void complain(std::string_view key, std::string_view value, std::string_view what);
  // Told once: not beside the complaint about a mistyped name of the same field.
  void complain_missing(std::string_view key);
  std::string path_of(std::string_view key) const;

 private:
  const kube::Json* take(std::string_view key);

  Document* document_;
  const kube::JsonObject* object_ = nullptr;
  std::string path_;
  std::vector<std::string> asked_;  // also those that were only announced
};

// "10000", "10k" (10,000), "1m" (1,000,000), "2.5k"; nothing else.
std::optional<int64_t> parse_count(std::string_view text);
// The entry of `known` that is nearest to `word` (at most two edits away), or empty.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace ghostfleet::emulator
