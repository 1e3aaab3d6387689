#include "kube/api/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kube/api/table_cells.h"

namespace ghostfleet::kube {
namespace {

using table::CellMaker;
using table::PrinterSpec;

std::string describe(std::string_view column) {
  static const std::map<std::string_view, std::string_view> kTexts = {
      {"Name", "name of the object"},
      {"Age", "time since the object was created"},
      {"Created At", "when the object was created"},
      {"Status", "summary of the state of the object"},
      {"Ready", "how much of it is ready"},
  };
  const auto it = kTexts.find(column);
  return it == kTexts.end() ? fmt::format("{} of the object", column) : std::string(it->second);
}

// "Desired:integer", "Name/name", "IP[w]"
TableColumn parse_column(std::string_view text) {
  TableColumn c;
  if (text.size() > 3 && text.substr(text.size() - 3) == "[w]") {
    c.priority = 1;
    text.remove_suffix(3);
  }
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    c.type = text.substr(colon + 1);
    text = text.substr(0, colon);
  } else if (const size_t slash = text.find("/name"); slash != std::string_view::npos) {
    c.format = "name";
    text = text.substr(0, slash);
  }
  c.name = text;
  c.description = describe(c.name);
  return c;
}

class SpecPrinter final : public TablePrinter {
 public:
  explicit SpecPrinter(const PrinterSpec& spec) : make_(spec.cells) {
    std::string_view rest = spec.columns;
    while (!rest.empty()) {
      const size_t comma = rest.find(", ");
      columns_.push_back(parse_column(rest.substr(0, comma)));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 2);
    }
  }
  const std::vector<TableColumn>& columns() const override { return columns_; }
  JsonArray cells(const Json& object, WallTime now) const override { return make_(object, now); }

 private:
  std::vector<TableColumn> columns_;
  CellMaker make_;
};

// A dotted JSONPath with [n], ['key'] and [?(@.k=="v")] is what printer columns use in practice.
const Json* follow_filter(const JsonArray& list, std::string_view filter) {
  const size_t eq = filter.find("==");
  if (filter.substr(0, 2) != "@." || eq == std::string_view::npos) return nullptr;
  std::string_view key = filter.substr(2, eq - 2);
  std::string_view want = filter.substr(eq + 2);
  if (want.size() >= 2) want = want.substr(1, want.size() - 2);
  for (const Json& item : list) {
    if (get_string(item, key) == want) return &item;
  }
  return nullptr;
}

const Json* follow_bracket(const Json& at, std::string_view inside) {
  if (inside.size() >= 3 && inside[0] == '?')
    return at.is_array() ? follow_filter(at.get_array(), inside.substr(2, inside.size() - 3)) : nullptr;
  if (!inside.empty() && (inside[0] == '\'' || inside[0] == '"'))
    return find_key(at, inside.substr(1, inside.size() - 2));
  if (!at.is_array()) return nullptr;
  size_t index = 0;
  for (const char c : inside) {
    if (c < '0' || c > '9') return nullptr;
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  return index < at.get_array().size() ? &at.get_array()[index] : nullptr;
}

const Json* follow_path(const Json& object, std::string_view path) {
  const Json* at = &object;
  while (at != nullptr && !path.empty()) {
    if (path[0] == '.') path.remove_prefix(1);
    if (!path.empty() && path[0] == '[') {
      const size_t end = path.find(']');
      if (end == std::string_view::npos) return nullptr;
      at = follow_bracket(*at, path.substr(1, end - 1));
      path.remove_prefix(end + 1);
      continue;
    }
    size_t end = 0;
    std::string key;
    while (end < path.size() && path[end] != '.' && path[end] != '[') {
      if (path[end] == '\\' && end + 1 < path.size()) ++end;  // an escaped dot belongs to the key
      key += path[end++];
    }
    if (!key.empty()) at = find_key(*at, key);
    path.remove_prefix(end);
  }
  return at;
}

Json custom_cell(const Json& object, const CustomColumn& column, WallTime now) {
  const Json* value = follow_path(object, column.json_path);
  if (value == nullptr || value->is_null()) return Json();
  if (column.column.type == "date" && value->is_string()) return Json(table::since(value->get_string(), now));
  if (column.column.type == "string" && !value->is_string()) return Json(to_json(*value));
  return *value;
}

class CustomPrinter final : public TablePrinter {
 public:
  explicit CustomPrinter(std::vector<CustomColumn> custom) : custom_(std::move(custom)) {
    columns_.push_back(parse_column("Name/name"));
    for (const CustomColumn& c : custom_) columns_.push_back(c.column);
    if (custom_.empty()) columns_.push_back(parse_column("Age:date"));
  }
  const std::vector<TableColumn>& columns() const override { return columns_; }
  JsonArray cells(const Json& object, WallTime now) const override {
    JsonArray out{table::name_of(object)};
    for (const CustomColumn& c : custom_) out.push_back(custom_cell(object, c, now));
    if (custom_.empty()) out.push_back(table::age(object, now));
    return out;
  }

 private:
  std::vector<CustomColumn> custom_;
  std::vector<TableColumn> columns_;
};

using PrinterMap = std::map<std::string, std::unique_ptr<TablePrinter>, std::less<>>;

PrinterMap make_printers() {
  PrinterMap map;
  for (const table::SpecList& list :
       {table::core_printers(), table::workload_printers(), table::policy_printers(), table::cluster_printers()}) {
    for (const PrinterSpec& spec : list) map.emplace(spec.kind, std::make_unique<SpecPrinter>(spec));
  }
  return map;
}

JsonArray default_cells(const Json& o, WallTime) {
  return {table::name_of(o), get_string(o, "metadata.creationTimestamp")};
}

// kubectl hides finished pods by these.
void add_conditions(const Json& object, JsonObject* row) {
  const std::string_view phase = get_string(object, "status.phase");
  if (get_string(object, "kind") != "Pod" || (phase != "Succeeded" && phase != "Failed")) return;
  const std::string_view message = phase == "Succeeded" ? "The pod has completed successfully." : "The pod failed.";
  (*row)["conditions"] =
      JsonArray{JsonObject{{"type", "Completed"}, {"status", "True"}, {"reason", phase}, {"message", message}}};
}

}  // namespace

const TablePrinter& TablePrinter::for_kind(const KindInfo& kind) {
  static const PrinterMap printers = make_printers();
  static const SpecPrinter fallback(PrinterSpec{"", "Name/name, Created At:date", default_cells});
  const std::string key = kind.kind == "Event" || kind.group.empty() ? kind.kind : kind.kind + "." + kind.group;
  const auto it = printers.find(key);
  return it == printers.end() ? static_cast<const TablePrinter&>(fallback) : *it->second;
}

std::shared_ptr<const TablePrinter> TablePrinter::for_custom(std::vector<CustomColumn> columns) {
  return std::make_shared<CustomPrinter>(std::move(columns));
}

Json table_column_definitions(const TablePrinter& printer) {
  JsonArray out;
  for (const TableColumn& c : printer.columns()) {
    out.emplace_back(JsonObject{{"name", c.name},
                                {"type", c.type},
                                {"format", c.format},
                                {"description", c.description},
                                {"priority", c.priority}});
  }
  return out;
}

Json table_row(const TablePrinter& printer, const Json& object, IncludeObject include, WallTime now) {
  JsonObject row{{"cells", printer.cells(object, now)}};
  add_conditions(object, &row);
  switch (include) {
    case IncludeObject::kNone: row["object"] = nullptr; break;
    case IncludeObject::kMetadata: row["object"] = partial_object_metadata(object); break;
    case IncludeObject::kObject: row["object"] = object; break;
  }
  return row;
}

Json partial_object_metadata(const Json& object) {
  const Json* metadata = find_key(object, "metadata");
  return JsonObject{{"kind", "PartialObjectMetadata"},
                    {"apiVersion", "meta.k8s.io/v1"},
                    {"metadata", metadata == nullptr ? Json(JsonObject{}) : *metadata}};
}

std::string human_duration(Duration d) {
  const int64_t seconds = d.count() / 1000000000;
  if (seconds < -1) return "<invalid>";
  if (seconds < 0) return "0s";
  auto pair = [](int64_t a, char unit, int64_t b, char small) {
    return b == 0 ? fmt::format("{}{}", a, unit) : fmt::format("{}{}{}{}", a, unit, b, small);
  };
  const int64_t minutes = seconds / 60;
  const int64_t hours = seconds / 3600;
  const int64_t days = hours / 24;
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (minutes < 10) return pair(minutes, 'm', seconds % 60, 's');
  if (minutes < 180) return fmt::format("{}m", minutes);
  if (hours < 8) return pair(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return fmt::format("{}h", hours);
  if (hours < 192) return pair(days, 'd', hours % 24, 'h');
  if (days < 365 * 2) return fmt::format("{}d", days);
  if (days < 365 * 8) return pair(days / 365, 'y', days % 365, 'd');
  return fmt::format("{}y", days / 365);
}

namespace table {

std::string name_of(const Json& o) { return std::string(get_string(o, "metadata.name")); }

std::string since(std::string_view time, WallTime now) {
  WallTime t;
  if (time.empty() || !parse_time(time, &t)) return "<unknown>";
  return human_duration(now - t);
}

Json age(const Json& o, WallTime now) { return Json(since(get_string(o, "metadata.creationTimestamp"), now)); }

Json text_or(std::string_view text, std::string_view fallback) { return Json(text.empty() ? fallback : text); }

int64_t size_at(const Json& o, std::string_view path) {
  if (const JsonArray* list = get_array(o, path)) return static_cast<int64_t>(list->size());
  if (const JsonObject* object = get_object(o, path)) return static_cast<int64_t>(object->size());
  return 0;
}

std::string format_labels(const JsonObject* labels) {
  if (labels == nullptr || labels->empty()) return "<none>";
  std::map<std::string_view, std::string_view> sorted;
  for (const auto& [key, value] : *labels)
    sorted[key] = value.is_string() ? std::string_view(value.get_string()) : std::string_view();
  std::string out;
  for (const auto& [key, value] : sorted) out += fmt::format("{}{}={}", out.empty() ? "" : ",", key, value);
  return out;
}

namespace {
std::string format_expression(const Json& e) {
  const std::string_view key = get_string(e, "key");
  const std::string_view op = get_string(e, "operator");
  if (op == "Exists") return std::string(key);
  if (op == "DoesNotExist") return "!" + std::string(key);
  return fmt::format("{} {} ({})", key, op == "In" ? "in" : "notin", join_strings(get_array(e, "values"), "", ","));
}
}  // namespace

std::string format_label_selector(const Json* selector) {
  if (selector == nullptr || !selector->is_object()) return "<none>";
  std::vector<std::string> parts;
  if (const JsonObject* labels = get_object(*selector, "matchLabels"); labels != nullptr && !labels->empty())
    parts.push_back(format_labels(labels));
  if (const JsonArray* expressions = get_array(*selector, "matchExpressions")) {
    for (const Json& e : *expressions) parts.push_back(format_expression(e));
  }
  return parts.empty() ? "<none>" : fmt::format("{}", fmt::join(parts, ","));
}

std::string join_strings(const JsonArray* list, std::string_view member, std::string_view separator) {
  std::string out;
  if (list == nullptr) return out;
  for (const Json& item : *list) {
    const std::string_view text = member.empty()
                                      ? (item.is_string() ? std::string_view(item.get_string()) : std::string_view())
                                      : get_string(item, member);
    if (!out.empty()) out += separator;
    out += text;
  }
  return out;
}

std::string container_names(const Json& o, std::string_view path) {
  return join_strings(get_array(o, path), "name", ",");
}
std::string container_images(const Json& o, std::string_view path) {
  return join_strings(get_array(o, path), "image", ",");
}

std::string access_modes(const JsonArray* modes) {
  static const std::map<std::string_view, std::string_view> kShort = {
      {"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"}};
  std::string out;
  for (const auto& [mode, text] : std::map<int, std::string_view>{
           {0, "ReadWriteOnce"}, {1, "ReadOnlyMany"}, {2, "ReadWriteMany"}, {3, "ReadWriteOncePod"}}) {
    const bool there = modes != nullptr && std::any_of(modes->begin(), modes->end(), [text = text](const Json& m) {
                         return m.is_string() && m.get_string() == text;
                       });
    if (there) out += (out.empty() ? "" : ",") + std::string(kShort.at(text));
  }
  return out;
}

const Json* find_condition(const Json& o, std::string_view type) {
  const JsonArray* conditions = get_array(o, "status.conditions");
  if (conditions == nullptr) return nullptr;
  for (const Json& c : *conditions) {
    if (get_string(c, "type") == type) return &c;
  }
  return nullptr;
}

bool has_condition(const Json& o, std::string_view type, std::string_view status) {
  const Json* c = find_condition(o, type);
  return c != nullptr && get_string(*c, "status") == status;
}

}  // namespace table
}  // namespace ghostfleet::kube
