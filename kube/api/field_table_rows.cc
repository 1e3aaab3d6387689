#include "kube/api/field_table_rows.h"

#include <array>
#include <charconv>

namespace ghostfleet::kube {

namespace {

constexpr size_t kColumns = 12;

std::array<std::string_view, kColumns> split(std::string_view line) {
  std::array<std::string_view, kColumns> cells;
  for (size_t i = 0; i < kColumns; ++i) {
    const size_t tab = line.find('\t');
    cells[i] = line.substr(0, tab);
    if (tab == std::string_view::npos) break;
    line = line.substr(tab + 1);
  }
  return cells;
}

}  // namespace

std::vector<Row> parse_rows() {
  std::vector<Row> rows;
  std::string_view text = field_table_text();
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    const auto c = split(line);
    Row row{c[0], c[1], c[1] == "<alias>", 0, c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10], c[11]};
    std::from_chars(c[2].data(), c[2].data() + c[2].size(), row.number);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace ghostfleet::kube
