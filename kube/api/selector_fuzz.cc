#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "kube/api/quantity.h"
#include "kube/api/selector.h"

using ghostfleet::kube::LabelSelector;
using ghostfleet::kube::Quantity;

// What parses must print as something that parses to the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto selector = LabelSelector::parse(text); selector.ok()) {
    auto again = LabelSelector::parse(selector->to_string());
    if (!again.ok() || again->to_string() != selector->to_string()) std::abort();
  }
  (void)ghostfleet::kube::parse_field_selector(text);
  if (auto quantity = Quantity::parse(text); quantity.ok()) {
    auto again = Quantity::parse(quantity->to_string());
    if (!again.ok() || again->to_string() != quantity->to_string()) std::abort();
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"a=b,c!=d", "x in (a,b),!y", "n>3", "metadata.name=a\\,b", "500m", "1.5Gi", "1e3", "-0.25", "100Ki"};
}
