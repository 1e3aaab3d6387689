#include "kube/api/codec_errors.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "kube/api/typed_reader.h"

namespace ghostfleet::kube {

namespace {

constexpr size_t kSummaryBytes = 30;
constexpr std::string_view kScheme = "pkg/runtime/scheme.go:111";

std::string summary(std::string_view body) {
  if (body.empty()) return "<empty>";
  const bool cut = body.size() > kSummaryBytes;
  body = body.substr(0, kSummaryBytes);
  std::string out;
  if (body.front() == '{') {
    out = body;
  } else {
    for (const char c : body) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return cut ? out + " ..." : out;
}

// The Go package of a group's internal types: "core", "apps", "rbac".
std::string internal_package(std::string_view group) {
  if (group.empty() || group == "events.k8s.io") return "core";
  return std::string(group.substr(0, group.find('.')));
}

// Old versions a real server still knows by name, though it does not serve them.
bool once_served(std::string_view group, std::string_view version, const KindInfo& expected) {
  const bool workload = expected.group == "apps" && expected.kind != "ControllerRevision";
  const bool beta = version == "v1beta1" || (version == "v1beta2" && workload) ||
                    (version == "v1alpha1" && group == "rbac.authorization.k8s.io");
  if (group == "extensions" && version == "v1beta1") {
    return (workload && expected.kind != "StatefulSet") || expected.group == "networking.k8s.io";
  }
  return beta && group == expected.group;
}

}  // namespace

std::string_view Gvk::group() const {
  const size_t slash = api_version.find('/');
  return slash == std::string::npos ? std::string_view() : std::string_view(api_version).substr(0, slash);
}

std::string_view Gvk::version() const {
  const size_t slash = api_version.find('/');
  return slash == std::string::npos ? std::string_view(api_version) : std::string_view(api_version).substr(slash + 1);
}

std::string bad_api_version(const Gvk& gvk) {
  const bool bad = std::count(gvk.api_version.begin(), gvk.api_version.end(), '/') > 1;
  return bad ? "unexpected GroupVersion string: " + gvk.api_version : std::string();
}

Gvk fill_gvk(Gvk given, const KindInfo& expected) {
  if (given.kind.empty()) given.kind = expected.kind;
  if (given.api_version.empty()) given.api_version = expected.api_version();
  return given;
}

bool matches(const Gvk& gvk, const KindInfo& expected) {
  return gvk.kind == expected.kind && gvk.version() == expected.version && gvk.group() == expected.group;
}

ApiError unrecognized(const KindInfo& expected, std::string_view why, std::string_view body) {
  return bad_request(fmt::format("the object provided is unrecognized (must be of type {}): {} ({})", expected.kind,
                                 why, summary(body)));
}

ApiError cannot_handle(const Gvk& gvk, const KindInfo& expected, std::string_view why) {
  return bad_request(fmt::format("{} in version {} cannot be handled as a {}: {}", gvk.kind, go_quote(gvk.version()),
                                 expected.kind, why));
}

ApiError wrong_kind(const Gvk& gvk, const KindInfo& expected) {
  const bool same_kind = gvk.kind == expected.kind;
  // Status, DeleteOptions and their like are kinds of every version; "v1" is theirs by name.
  const bool known = find_type(gvk.group(), gvk.version(), gvk.kind) != nullptr ||
                     (gvk.api_version == "v1" && find_type("meta", "v1", gvk.kind) != nullptr);
  if (expected.custom() || (same_kind && (known || once_served(gvk.group(), gvk.version(), expected)))) {
    if (gvk.api_version != expected.api_version()) {
      return bad_request(fmt::format("the API version in the data ({}) does not match the expected API version ({})",
                                     gvk.api_version, expected.api_version()));
    }
    return bad_request(
        fmt::format("the kind in the data ({}) does not match the expected kind ({})", gvk.kind, expected.kind));
  }
  if (!known) {
    return cannot_handle(gvk, expected,
                         fmt::format("no kind {} is registered for version {} in scheme {}", go_quote(gvk.kind),
                                     go_quote(gvk.api_version), go_quote(kScheme)));
  }
  return cannot_handle(gvk, expected,
                       fmt::format("converting ({}.{}) to ({}.{}): unknown conversion", gvk.version(), gvk.kind,
                                   internal_package(expected.group), expected.kind));
}

}  // namespace ghostfleet::kube
