#include "emulator/images/image_collection.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace ghostfleet::emulator {

int usage_percent(int64_t capacity, int64_t available) {
  if (capacity <= 0) return 0;
  return 100 - static_cast<int>(static_cast<double>(available) * 100 / static_cast<double>(capacity));
}

int64_t bytes_to_free(const CollectionRules& rules, int64_t capacity, int64_t available) {
  if (rules.high_percent >= 100 || usage_percent(capacity, available) < rules.high_percent) return 0;
  const auto keep_free = static_cast<double>(capacity) * (100 - rules.low_percent) / 100;
  return std::max<int64_t>(static_cast<int64_t>(keep_free) - available, 0);
}

ChosenImages choose_images(const std::vector<Collectable>& images, TimePoint now, Duration minimum_age,
                           int64_t wanted) {
  std::vector<size_t> order(images.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(images[a].used, images[a].since) < std::tie(images[b].used, images[b].since);
  });
  ChosenImages out;
  for (const size_t i : order) {
    const Collectable& image = images[i];
    if (out.freed >= wanted) break;
    if (image.stays || image.used >= now || now - image.since < minimum_age) continue;
    out.images.push_back(i);
    out.freed += image.size;
  }
  return out;
}

std::string collection_failure(int64_t wanted, int64_t freed) {
  if (freed >= wanted) return {};
  return fmt::format(
      "Failed to garbage collect required amount of images. Attempted to free {} bytes, but only found {} bytes "
      "eligible to free.",
      wanted, freed);
}

void CollectionNews::round(const std::string& failure, const Warn& warn) {
  if (!failure.empty()) {
    warn("FreeDiskSpaceFailed", failure);
    if (failed_) warn("ImageGCFailed", failure);
  }
  failed_ = !failure.empty();
}

}  // namespace ghostfleet::emulator
