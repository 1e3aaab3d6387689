#include "base/spelling.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ghostfleet {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t k = 0; k < row.size(); ++k) row[k] = k;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t k = 1; k < row.size(); ++k) {
      const size_t above = row[k];
      row[k] = std::min({above + 1, row[k - 1] + 1, diagonal + (a[i - 1] == b[k - 1] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return row.back();
}

bool looks_like(std::string_view word, std::string_view other) {
  return edit_distance(word, other) < std::clamp<size_t>(word.size() / 2 + 1, 2, 3);
}

}  // namespace ghostfleet
