// Helpers shared by the printers of kube/api/table*.cc; not for other folders.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "kube/api/table.h"

namespace ghostfleet::kube::table {

using CellMaker = std::function<JsonArray(const Json& object, WallTime now)>;

// A printer given by a text of columns and a function. Columns are separated by ", ": "Name/name, Ready,
// Desired:integer, IP[w]".
struct PrinterSpec {
  std::string kind;  // "Pod", or "Deployment.apps"
  std::string columns;
  CellMaker cells;
};
using SpecList = std::vector<PrinterSpec>;

SpecList core_printers();
SpecList workload_printers();
SpecList policy_printers();
SpecList cluster_printers();

std::string name_of(const Json& o);
// Age of metadata.creationTimestamp; "<unknown>" without one.
Json age(const Json& o, WallTime now);
// Age of any time; "<unknown>" when it is missing.
std::string since(std::string_view time, WallTime now);
Json text_or(std::string_view text, std::string_view fallback);
// metadata of a count: the size of the array or object at the path.
int64_t size_at(const Json& o, std::string_view path);
// "a=b,c=d" in key order; "<none>" when empty.
std::string format_labels(const JsonObject* labels);
// A metav1.LabelSelector as text; "<none>" when empty.
std::string format_label_selector(const Json* selector);
std::string container_names(const Json& o, std::string_view path);
std::string container_images(const Json& o, std::string_view path);
// Elements (or their member) of a list joined.
std::string join_strings(const JsonArray* list, std::string_view member, std::string_view separator);
// "RWO,ROX"
std::string access_modes(const JsonArray* modes);
bool has_condition(const Json& o, std::string_view type, std::string_view status = "True");
const Json* find_condition(const Json& o, std::string_view type);

}  // namespace ghostfleet::kube::table
