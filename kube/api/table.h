// Tables: what `kubectl get` prints, made on the server (meta.k8s.io/v1 Table). One printer a kind: columns and the
// cells of an object.
//
// Columns and cell rules are those of a real API server 1.36; the descriptions of columns are our
// own. Thread rule: printers are immutable; row() may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "kube/api/json.h"
#include "kube/api/kinds.h"

namespace ghostfleet::kube {

enum class IncludeObject : unsigned char { kNone, kMetadata, kObject };

struct TableColumn {
  std::string name;
  std::string type = "string";  // string, integer, boolean, date, number
  std::string format;           // "name" on the name column
  std::string description;
  int priority = 0;  // 1: only in wide output
};

// An additionalPrinterColumn of a custom resource.
struct CustomColumn {
  TableColumn column;
  std::string json_path;  // ".spec.size"
};

class TablePrinter {
 public:
  virtual ~TablePrinter() = default;
  virtual const std::vector<TableColumn>& columns() const = 0;
  // The cells of one object, as many as columns().
  virtual JsonArray cells(const Json& object, WallTime now) const = 0;

  // The printer of a built-in kind; kinds without one print Name and Created At.
  static const TablePrinter& for_kind(const KindInfo& kind);
  // The printer of a custom resource; no columns given: Name and Age.
  static std::shared_ptr<const TablePrinter> for_custom(std::vector<CustomColumn> columns);
};

// [{"name":...,"type":...,"format":...,"description":...,"priority":0}]
Json table_column_definitions(const TablePrinter& printer);
// {"cells":[...],"conditions":[...]?,"object":{...}}
Json table_row(const TablePrinter& printer, const Json& object, IncludeObject include, WallTime now);
// {"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{...}}
Json partial_object_metadata(const Json& object);

// "5s", "3m12s", "4d", "2y10d": ages as kubectl shows them.
std::string human_duration(Duration d);

}  // namespace ghostfleet::kube
