#include "controlplane/controllers/job_plan.h"

#include <algorithm>
#include <charconv>

namespace ghostfleet::controlplane::controllers {

namespace {
bool number(std::string_view text, int64_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}
}  // namespace

std::set<int64_t> parse_indexes(std::string_view text, int64_t limit) {
  std::set<int64_t> indexes;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const size_t dash = part.find('-');
    int64_t first = 0, last = 0;
    if (!number(part.substr(0, dash), &first)) continue;
    last = first;
    if (dash != std::string_view::npos && !number(part.substr(dash + 1), &last)) continue;
    for (int64_t i = first; i <= last && i < limit; ++i) indexes.insert(i);
  }
  return indexes;
}

std::string format_indexes(const std::set<int64_t>& indexes) {
  std::string text;
  for (auto it = indexes.begin(); it != indexes.end();) {
    const int64_t first = *it;
    int64_t last = first;
    while (++it != indexes.end() && *it == last + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last > first) text += (last == first + 1 ? "," : "-") + std::to_string(last);
  }
  return text;
}

int64_t wanted_active(int64_t parallelism, int64_t completions, int64_t succeeded, int64_t active) {
  if (completions < 0) return succeeded > 0 ? active : parallelism;  // a work queue: done when one has succeeded
  return std::clamp<int64_t>(completions - succeeded, 0, parallelism);
}

std::vector<int64_t> next_indexes(int64_t completions, const std::set<int64_t>& succeeded,
                                  const std::set<int64_t>& failed, const std::set<int64_t>& active, int64_t count) {
  std::vector<int64_t> next;
  for (int64_t i = 0; i < completions && static_cast<int64_t>(next.size()) < count; ++i) {
    if (!succeeded.contains(i) && !failed.contains(i) && !active.contains(i)) next.push_back(i);
  }
  return next;
}

Duration failure_backoff(int64_t failures) {
  if (failures <= 0) return Duration(0);
  Duration d = std::chrono::seconds(10);
  for (int64_t i = 1; i < failures && d < std::chrono::minutes(10); ++i) d *= 2;
  return std::min<Duration>(d, std::chrono::minutes(10));
}

}  // namespace ghostfleet::controlplane::controllers
